"""The pytest plugin for users' tests."""
