"""Submitting a stream of jobs: as fast as one core encodes them, bounded by the local queue."""

import time
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException

from scheduler.client.config import Pace
from scheduler.client.delivery import failure_in, no_acknowledgement, undelivered
from scheduler.client.errors import SubmitError, SubmitUnknown
from scheduler.client.process import Process
from scheduler.client.reference import JobRef
from scheduler.client.request import Request
from scheduler.client.topics import SURELY_FITS_BYTES
from scheduler.core.keys import shard_of
from scheduler.core.spec import Band

R = TypeVar("R")

_LATER_S: Final = 1.5  # see submitter
_SERVE_S: Final = 0.02


class _Sent(Generic[R]):
    """One record on its way, and the receiver of its delivery report. `request` goes once it is acknowledged."""

    __slots__ = ("_troubles", "error", "ref", "request")

    def __init__(self, request: Request[R], ref: JobRef[R], troubles: "list[_Sent[R]]") -> None:
        self.request: Request[R] | None = request
        self.ref = ref
        self.error: KafkaError | None = None
        self._troubles = troubles

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        self.error = failure_in(error, message)
        if self.error is None:
            self.ref.landed_at(message.offset())
            self.request = None
        else:
            self._troubles.append(self)


class _Stream(Generic[R]):
    """One call of `submit_many`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lane = process.lane(Pace.BULK)
        self._routes: dict[Band, tuple[str, int]] = {}
        self._sent: list[_Sent[R]] = []
        self._troubles: list[_Sent[R]] = []

    def send(self, request: Request[R]) -> bool:
        """Queue one record; return False once any record has failed. Raises `SubmitError` if it can't be queued."""
        value = request.encoded()
        topic, partitions = self._route(request, len(value))
        job_id = request.spec.job_id
        partition = shard_of(job_id, partitions)
        sent = _Sent(request, JobRef(job_id, topic, partition, -1), self._troubles)
        try:
            self._lane.produce(topic, partition, job_id, value, sent)
        except (BufferError, KafkaException):
            for _ in self._process.tries(Pace.BULK, topic, partition, job_id, value, sent):
                self._lane.wait_for_room()
        self._sent.append(sent)
        return not self._troubles

    def wait(self) -> None:
        """Wait until every record is acknowledged or has failed, within the time that they are given."""
        deadline_s = time.monotonic() + self._process.config.timeout_s + _LATER_S
        for sent in self._sent:
            while sent.request is not None and sent.error is None and time.monotonic() < deadline_s:
                self._lane.serve(_SERVE_S)

    def refs(self) -> list[JobRef[R]]:
        """Return what was acknowledged."""
        return [sent.ref for sent in self._sent if sent.request is None]

    def failure(self, more: SubmitError | None, unsent: list[Request[R]]) -> SubmitError | None:
        """Return the error to raise: the gravest, which is not to know. `more` came from a record never queued."""
        lost = [sent for sent in self._sent if sent.request is not None]
        errors = [self._error(sent) for sent in lost] + ([more] if more is not None else [])
        if not errors:
            return None
        self._lane.suspect = True
        gravest = next((error for error in errors if isinstance(error, SubmitUnknown)), errors[0])
        gravest.acknowledged = list(self.refs())
        gravest.remaining = [sent.request for sent in lost if sent.request is not None] + list(unsent)
        return gravest

    def _route(self, request: Request[R], size_bytes: int) -> tuple[str, int]:
        route = self._routes.get(request.band)
        if route is not None and size_bytes <= SURELY_FITS_BYTES and not self._lane.suspect:
            return route
        topic = self._process.topic(request)
        partitions = self._process.prepare(self._lane, topic, request, size_bytes)
        self._routes[request.band] = (topic, partitions)
        return topic, partitions

    def _error(self, sent: _Sent[R]) -> SubmitError:
        assert sent.request is not None
        if sent.error is None:
            return no_acknowledgement(sent.request, self._process.config)
        self._process.topics.forget(self._process.topic(sent.request))
        return undelivered(sent.error, sent.request, self._process.topic(sent.request), self._process.config)


def submit_stream(process: Process, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
    """Submit all of `requests`, in their order, and return their refs once Kafka has them all.

    An error of the iterable itself passes through, with a note of how many jobs were acknowledged before it.
    """
    stream: _Stream[R] = _Stream(process)
    trouble: SubmitError | None = None
    unsent: list[Request[R]] = []
    try:
        for request in requests:
            try:
                if not stream.send(request):
                    break
            except SubmitError as error:
                trouble, unsent = error, [request]
                break
    except BaseException as error:
        stream.wait()
        error.add_note(f"{len(stream.refs())} jobs of this stream were acknowledged before")
        raise
    stream.wait()
    failure = stream.failure(trouble, unsent)
    if failure is not None:
        raise failure
    return stream.refs()
