"""Submitting to Kafka: one job for a waiting caller, sync or async, or a stream of them.

A job counts as submitted when its delivery report says that all in-sync replicas have it, never before.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError

from scheduler.client.bulk import submit_stream
from scheduler.client.config import ClientConfig, Pace
from scheduler.client.delivery import failure_in, no_acknowledgement, undelivered
from scheduler.client.errors import SubmitError
from scheduler.client.lane import Lane
from scheduler.client.process import Process
from scheduler.client.reference import JobRef
from scheduler.client.request import Request
from scheduler.core.keys import shard_of

R = TypeVar("R")

_LATER_S: Final = 1.5
"""librdkafka looks for records past their time once a second: wait that much longer for its report."""
_ROOM_S: Final = 0.005


class KafkaSubmitter:
    """Submits from any thread, event loop and, after a fork, process: each process has producers of its own."""

    def __init__(self, config: ClientConfig) -> None:
        """Connect to nothing yet."""
        self._config = config
        self._process = Process(config)
        _open.add(self)

    def submit(self, request: Request[R]) -> JobRef[R]:
        """Submit one job; block until it is acknowledged."""
        process = self._process
        lane, topic, value = process.lane(Pace.PROMPT), process.topic(request), request.encoded()
        partition = shard_of(request.id, process.prepare(lane, topic, request, len(value)))
        acknowledgement = _Acknowledgement()
        for _ in process.tries(Pace.PROMPT, topic, partition, request.id, value, acknowledgement):
            lane.wait_for_room()
        if not acknowledgement.wait(self._config.timeout_s + _LATER_S):
            raise self._silence(lane, request)
        self._settle(process, lane, request, topic, acknowledgement.error)
        return JobRef(request.id, topic, partition, acknowledgement.offset)

    async def asubmit(self, request: Request[R]) -> JobRef[R]:
        """Submit one job without blocking the event loop."""
        process = self._process
        lane, topic, value = process.lane(Pace.PROMPT), process.topic(request), request.encoded()
        if process.is_ready(lane, topic, len(value)):
            partitions = process.prepare(lane, topic, request, len(value))
        else:
            partitions = await asyncio.to_thread(process.prepare, lane, topic, request, len(value))
        partition = shard_of(request.id, partitions)
        acknowledgement = _AsyncAcknowledgement()
        for _ in process.tries(Pace.PROMPT, topic, partition, request.id, value, acknowledgement):
            await asyncio.sleep(_ROOM_S)
        if not await acknowledgement.wait(self._config.timeout_s + _LATER_S):
            raise self._silence(lane, request)
        self._settle(process, lane, request, topic, acknowledgement.error)
        return JobRef(request.id, topic, partition, acknowledgement.offset)

    def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Submit a stream of jobs; the refs come in its order. At the first trouble it stops and tells how far it came."""
        return submit_stream(self._process, requests)

    def close(self) -> None:
        """Send what is on its way and let go of connections; a later submit opens them anew."""
        process, self._process = self._process, Process(self._config)
        process.close()

    def __del__(self) -> None:
        """Let go of connections that nobody can use any more."""
        self._process.abandon()

    def begin_anew(self) -> None:
        """Forget all connections without touching them: in a forked child they are the parent's, and so are locks."""
        self._process = Process(self._config)

    def _settle(
        self, process: Process, lane: Lane, request: Request[Any], topic: str, error: KafkaError | None
    ) -> None:
        if error is None:
            lane.suspect = False
            return
        lane.failed(error)
        process.topics.forget(topic)
        raise undelivered(error, request, topic, self._config)

    def _silence(self, lane: Lane, request: Request[Any]) -> SubmitError:
        lane.suspect = True
        return no_acknowledgement(request, self._config)


class _Acknowledgement:
    """A delivery report that a thread waits for."""

    __slots__ = ("_done", "error", "offset")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self.error: KafkaError | None = None
        self.offset = -1

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        self.error = failure_in(error, message)
        if self.error is None:
            self.offset = message.offset()
        self._done.release()

    def wait(self, timeout_s: float) -> bool:
        return self._done.acquire(timeout=timeout_s)


class _AsyncAcknowledgement:
    """A delivery report that a coroutine waits for; the report comes in another thread."""

    __slots__ = ("_done", "_loop", "error", "offset")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self.error: KafkaError | None = None
        self.offset = -1

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        self.error = failure_in(error, message)
        if self.error is None:
            self.offset = message.offset()
        try:
            self._loop.call_soon_threadsafe(self._done.set)
        except RuntimeError:
            pass  # the loop was closed meanwhile: nobody waits any more

    async def wait(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._done.wait()
        except TimeoutError:
            return False
        return True


_open: Final[weakref.WeakSet[KafkaSubmitter]] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for submitter in list(_open):
        submitter.begin_anew()


@atexit.register
def _close_all() -> None:
    for submitter in list(_open):
        submitter.close()


# Registered after the hook of `forks`, which this module imports, so run after it: the producers that are let go
# here have been kept from being destroyed there.
os.register_at_fork(after_in_child=_begin_all_anew)
