"""The worker: App, Context, outcomes, the session that holds leases, and the children that run jobs."""
