"""A job ready to be submitted: `Request`, and the `Template` that makes many alike."""

import time
from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

import msgspec

from scheduler.client.errors import InvalidJob
from scheduler.client.ids import uuid7
from scheduler.client.options import Terms
from scheduler.core import bounds
from scheduler.core.keys import id_from_key
from scheduler.core.settings import QueueSettings
from scheduler.core.spec import Band, JobSpec
from scheduler.core.validation import FieldError, problems

R = TypeVar("R")

_WIDEST = QueueSettings(timeout_max_ms=bounds.TIMEOUT_MAX_MS, payload_max_bytes=bounds.PAYLOAD_MAX_BYTES)
"""What any queue may allow; what the job's own queue allows is known to the dispatchers only."""


_OPTION_OF = {"timeout_ms": "timeout", "run_at_ms": "run_at", "expires_at_ms": "expires_in"}


class Request(msgspec.Struct, Generic[R], frozen=True):
    """One job with its id: whatever happens on the way, submitting it again can't make a second job of it."""

    spec: JobSpec
    band: Band

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.job_id

    def encoded(self) -> bytes:
        """Return the framed job record."""
        return _encoder()(self.spec)


class Template:
    """What jobs of one type under the same terms have in common. `name` begins each message about them."""

    def __init__(self, name: str, job_type: str, terms: Terms) -> None:
        """Take the terms; they are checked with the first job."""
        self.name = name
        self.type = job_type
        self.terms = terms
        self._plain = not (terms.run_at_ms or terms.delay_ms or terms.expires_in_ms or terms.job_id)
        self._known_good = False

    def request(self, payload: bytes) -> Request[R]:
        """Return a request with a new id, or the one that the terms give. Raises `InvalidJob`."""
        terms = self.terms
        spec = JobSpec(
            self._id() if terms.job_id or terms.idempotency_key is not None else uuid7(),
            terms.tenant,
            terms.queue,
            self.type,
            payload,
            terms.content_type,
            terms.priority,
            0 if self._plain else self._run_at_ms(),
            _from_now(terms.expires_in_ms),
            terms.max_attempts,
            terms.timeout_ms,
            terms.backoff,
            terms.idempotency_key,
            (),
            terms.on_parent_failure,
            terms.labels,
        )
        self._check(spec)
        return Request(spec, terms.band)

    def _check(self, spec: JobSpec) -> None:
        # Jobs that differ in id and payload only need the full check once: our own ids are always in bounds.
        if self._known_good and len(spec.payload) <= bounds.PAYLOAD_MAX_BYTES:
            return
        faults = problems(spec, _WIDEST)
        if faults:
            raise InvalidJob(f"{self.name}: {'; '.join(map(_told, faults))}")
        self._known_good = self._plain

    def _id(self) -> str:
        terms = self.terms
        if terms.idempotency_key is None:
            return terms.job_id or uuid7()
        derived = id_from_key(terms.tenant, terms.idempotency_key)
        if terms.job_id not in {None, derived}:
            raise InvalidJob(
                f"{self.name}: job_id: with this idempotency_key it can only be {derived!r}; leave it out"
            )
        return derived

    def _run_at_ms(self) -> int:
        return self.terms.run_at_ms or _from_now(self.terms.delay_ms)


@cache
def _encoder() -> Callable[[JobSpec], bytes]:
    from scheduler.codec.job import (
        encode_job,  # the codec reads its schemas: not while user modules are imported
    )

    return encode_job


def _from_now(after_ms: int) -> int:
    return time.time_ns() // 1_000_000 + after_ms if after_ms else 0


def _told(fault: FieldError) -> str:
    field = fault.pointer.removeprefix("/")
    return f"{_OPTION_OF.get(field, field)}: {fault.detail}"
