"""Loads, a worker stand-in and a ledger, behind 'scheduler bench' and the demo."""
