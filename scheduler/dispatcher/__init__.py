"""The dispatcher: turns, adoption, take-over, restore; depends on ports only."""
