"""Signals, metrics and logs."""
