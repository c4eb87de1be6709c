"""Submitting jobs and asking about them."""
