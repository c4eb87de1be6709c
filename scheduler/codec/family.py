"""The record types that one kind of topic carries: a value names its own type, by its fingerprint."""

from typing import Any, Generic, TypeVar

from scheduler.codec import framing
from scheduler.codec.record import RecordCodec

T = TypeVar("T")


class Family(Generic[T]):
    """Encodes by the type of the record, decodes by its header."""

    def __init__(self, codecs: dict[type, RecordCodec[Any]]) -> None:
        """Take a codec for each core type that belongs here."""
        self.codecs = tuple(codecs.values())
        self.names = tuple(codec.name for codec in self.codecs)
        self._encoders = {of: codec.encode for of, codec in codecs.items()}
        self._decoders = {codec.header: codec.decode for codec in codecs.values()}

    def encode(self, record: T) -> bytes:
        """Return `record` framed, or raise `Refused`."""
        return self._encoders[record.__class__](record)

    def decode(self, value: bytes | None) -> T:
        """Return the record in `value`, or raise `Refused`."""
        decode = self._decoders.get(value[: framing.HEADER_BYTES]) if value else None
        if value is None or decode is None:
            raise framing.refusal(value, " or ".join(self.names))
        record: T = decode(value)
        return record
