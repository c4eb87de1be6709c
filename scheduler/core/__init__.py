"""The pure heart: jobs, shards, leases, limits, timers, retry. No clock, no chance, no I/O."""
