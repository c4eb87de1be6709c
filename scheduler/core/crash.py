"""A bug of ours, met while deciding about one job: it is told apart from the others, so that they can go on."""


class JobCrashed(Exception):
    """Deciding about one job, or encoding it, raised something unexpected."""

    def __init__(self, shard: int, job_id: str) -> None:
        """Remember whose fault it is; `job_id` is empty if that is not known."""
        super().__init__(f"shard {shard}, job {job_id or 'unknown'}")
        self.shard = shard
        self.job_id = job_id
