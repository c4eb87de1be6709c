"""Job records, as clients publish them to the submit topics and as shards keep them."""

from typing import Final

import msgspec

from scheduler.codec import framing
from scheduler.codec.confluent import Confluent
from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds, keys
from scheduler.core.spec import JobSpec

_CODEC: Final = RecordCodec(
    "JobV1",
    JobSpec,
    max_bytes=bounds.SPEC_MAX_BYTES,
    limits={"after": bounds.PARENTS_MAX, "labels": bounds.LABELS_MAX},
)
JOBS: Final[Family[JobSpec]] = Family({JobSpec: _CODEC})

encode_job = JOBS.encode


def decode_job(value: bytes | None, confluent: Confluent | None = None) -> JobSpec:
    """Return the job in a record's value; its `job_id` is empty if the record has none (see `identify`).

    Only the size, counts and types of fields are checked here, the rest by `core.validation.check`. Raises `Refused`,
    and with `confluent`, which accepts the framing of a schema registry too, `RegistryUnavailable`.
    """
    if confluent is not None and value and framing.is_confluent(value):
        return confluent.decode(value)
    return JOBS.decode(value)


def identify(spec: JobSpec, topic: str, partition: int, offset: int) -> str:
    """Return the id of a job that was published at these coordinates; `topic` is the full name."""
    if spec.job_id:
        return spec.job_id
    if spec.idempotency_key is not None:
        return keys.id_from_key(spec.tenant, spec.idempotency_key)
    return keys.id_from_coordinates(topic, partition, offset)


def with_id(raw: bytes, spec: JobSpec, job_id: str) -> tuple[bytes, JobSpec]:
    """Return the record and job that are kept: single-object framed, and naming `job_id`.

    `raw` is what `spec` was decoded from; it comes back as it is if it needs no change.
    """
    if spec.job_id == job_id and raw.startswith(_CODEC.header):
        return raw, spec
    named = msgspec.structs.replace(spec, job_id=job_id)
    return encode_job(named), named
