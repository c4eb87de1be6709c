"""Taking jobs in, in place of Kafka."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from scheduler.client.reference import Inquiries, JobRef
from scheduler.client.request import Request
from scheduler.core.inputs import SUBMITS, TOPIC_OF
from scheduler.core.keys import shard_of
from scheduler.core.spec import Band
from scheduler.testing.memory_broker import MemoryBroker
from scheduler.testing.memory_dispatcher import PREFIX
from scheduler.testing.virtual_time import VirtualClock

R = TypeVar("R")

_TOPICS: Final = {band: TOPIC_OF[SUBMITS[band]] for band in Band}


class MemorySubmitter:
    """Appends job records to the submit topics of a broker in memory (`client.ports.Submitter`)."""

    def __init__(
        self,
        broker: MemoryBroker,
        clock: VirtualClock,
        inquiries: Inquiries,
        accepted: Callable[[JobRef[Any], Request[Any]], None],
    ) -> None:
        """Refs ask `inquiries`. `accepted` hears of each job before the submitter does; it may raise."""
        self._broker = broker
        self._clock = clock
        self._inquiries = inquiries
        self._accepted = accepted

    def submit(self, request: Request[R]) -> JobRef[R]:
        """Submit one job."""
        value, topic = request.encoded(), _TOPICS[request.band]
        partition = shard_of(request.id, self._broker.partitions)
        ref: JobRef[R] = JobRef(request.id, PREFIX + topic, partition, -1, self._inquiries)
        self._accepted(ref, request)
        key = request.id.encode()
        ref.landed_at(self._broker.append(topic, partition, key, value, at_ms=self._clock.wall_ms()))
        return ref

    async def asubmit(self, request: Request[R]) -> JobRef[R]:
        """Submit one job."""
        return self.submit(request)

    def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Submit a stream of jobs; the refs come in its order."""
        return [self.submit(request) for request in requests]

    def close(self) -> None:
        """Nothing to close."""
