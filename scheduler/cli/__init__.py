"""The command line: the composition root. Nobody imports it."""
