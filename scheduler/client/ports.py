"""What takes jobs in. `KafkaSubmitter` implements it, and so does the scheduler in memory of `scheduler.testing`."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from scheduler.client.reference import JobRef
from scheduler.client.request import Request

R = TypeVar("R")


class Submitter(Protocol):
    """Takes jobs in. Each method returns once the jobs are durable, or raises a `SubmitError`."""

    def submit(self, request: Request[R]) -> JobRef[R]:
        """Submit one job; block until it is acknowledged."""

    async def asubmit(self, request: Request[R]) -> JobRef[R]:
        """Submit one job without blocking the event loop."""

    def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Submit a stream of jobs; the refs come in its order."""

    def close(self) -> None:
        """Send what is on its way and let go of connections; a later submit opens them anew."""
