"""What stands in front of an Avro body: the single-object header, or Confluent's.

single-object   C3 01  8-byte fingerprint, least significant byte first  body
Confluent       00     4-byte schema id, most significant byte first     body
"""

from typing import Final

from scheduler.codec import schemas
from scheduler.codec.errors import Refused
from scheduler.core.outputs import Refusal

MARKER: Final = b"\xc3\x01"
HEADER_BYTES: Final = 10
CONFLUENT_MARKER: Final = b"\x00"
CONFLUENT_BYTES: Final = 5

NAMES: Final = (
    *("JobV1", "OfferV1", "DoneV1", "FailV1", "ReleaseV1", "BeatV1", "CheckpointV1", "EchoV1", "LeaseV1"),
    *("RevokeV1", "DrainV1", "RetryV1", "ForwardV1", "SubmitsReadV1", "StateV1", "MetaV1", "LifecycleV1"),
)
"""Every record type there is."""


def header(name: str) -> bytes:
    """Return the ten bytes in front of records of the type `name`."""
    return MARKER + schemas.load(name).fingerprint


def is_confluent(value: bytes) -> bool:
    """Say whether a value looks framed by a serializer of Confluent's registry."""
    return value.startswith(CONFLUENT_MARKER) and len(value) > CONFLUENT_BYTES


def refusal(value: bytes | None, accepted: str) -> Refused:
    """Return why a value does not begin like any of the records that are `accepted`, which is told."""
    if not value:
        return Refused(Refusal.EMPTY, "no value" if value is None else "an empty value")
    if is_confluent(value):
        return Refused(
            Refusal.FRAMING, f"framed for a schema registry, which is not accepted here; want {accepted}"
        )
    if not value.startswith(MARKER):
        return Refused(Refusal.FRAMING, f"does not begin with C3 01; want {accepted}")
    if len(value) < HEADER_BYTES:
        return Refused(Refusal.FRAMING, f"ends inside the header, after {len(value)} bytes; want {accepted}")
    fingerprint = value[len(MARKER) : HEADER_BYTES]
    name = next((name for name in NAMES if schemas.load(name).fingerprint == fingerprint), None)
    if name is None:
        return Refused(
            Refusal.SCHEMA_UNKNOWN, f"no schema has the fingerprint {fingerprint.hex()}; want {accepted}"
        )
    return Refused(Refusal.SCHEMA_NOT_ALLOWED, f"{name} is not accepted here; want {accepted}")
