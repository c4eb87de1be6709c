"""One record type on the wire: its schema, its core type, its bounds, and the functions made of them."""

import struct
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

import msgspec

from scheduler.codec import decoding, encoding, framing, schemas
from scheduler.codec.errors import FieldError, Refused
from scheduler.codec.primitives import MalformedError, OverLimitError, WrongTypeError
from scheduler.codec.source import Function, Limits, Ranges
from scheduler.core.outputs import Refusal

T = TypeVar("T", bound=msgspec.Struct)


class RecordCodec(Generic[T]):
    """Encodes and decodes one record type, framed. Both raise `Refused` only; its text holds no value of a field."""

    def __init__(
        self,
        name: str,
        of: type[T],
        *,
        max_bytes: int,
        limits: Limits | None = None,
        ranges: Ranges | None = None,
        shared: AbstractSet[str] = frozenset(),
    ) -> None:
        """Make the functions for the schema `name` and the core type `of`.

        `max_bytes` bounds a whole framed record, `limits` its arrays, maps and strings, `ranges` its numbers.
        `shared` names the fields whose values go unchanged from one record to the next (see `encoding.encoder`).
        """
        schema = schemas.load(name)
        self.name = name
        self.of = of
        self.limits = limits or {}
        self.ranges = ranges or {}
        self.header = framing.header(name)
        self.max_bytes = max_bytes
        self._decoder = decoding.decoder(schema.definition, of, self.limits, self.ranges)
        self._encoder = encoding.encoder(schema.definition, of, self.header, shared)
        self._decode = self._decoder.call
        self._encode = self._encoder.call

    def encode(self, record: T) -> bytes:
        """Return `record` framed; `Refused` names the field that can't be written."""
        try:
            encoded: bytes = self._encode(record)
        except Exception as error:  # noqa: BLE001 - translated below
            refused = _unwritable(error, self._encoder)
        else:
            if len(encoded) <= self.max_bytes:
                return encoded
            refused = self._too_large(len(encoded))
        # Raised out here so that it has no context: the first error may quote a value.
        raise refused

    def decode(self, value: bytes) -> T:
        """Return the record in `value`, which begins with this type's header."""
        size = len(value)
        if size > self.max_bytes:
            raise self._too_large(size)
        try:
            record: T
            record, end = self._decode(value, framing.HEADER_BYTES)
        except Exception as error:  # noqa: BLE001 - translated below
            refused = _undecodable(error, self._decoder)
        else:
            if end == size:
                return record
            refused = _wrong_end(size - end)
        raise refused

    def _too_large(self, size: int) -> Refused:
        detail = f"{self.name} of {size} bytes above the limit {self.max_bytes}"
        return Refused(
            Refusal.TOO_LARGE, detail, (FieldError("", "too_large", detail, str(size), str(self.max_bytes)),)
        )


def _wrong_end(left: int) -> Refused:
    if left > 0:
        return Refused(Refusal.TRAILING_BYTES, f"{left} bytes follow the record")
    return Refused(Refusal.UNDECODABLE, "ends inside the last field")


def _pointer(error: Exception, function: Function) -> str:
    """Return the field that was being handled when the generated function raised or called what raised."""
    # The first entry of the traceback is the caller's own frame, the second that of the generated function.
    below = error.__traceback__.tb_next if error.__traceback__ else None
    path = function.paths[below.tb_lineno] if below else ""
    return (
        "/" + path.replace(".", "/").replace("[]", "").replace("{key}", "").replace("{}", "") if path else ""
    )


def _undecodable(error: Exception, function: Function) -> Refused:
    pointer = _pointer(error, function)
    if isinstance(error, OverLimitError):
        return _refused(Refusal.OUT_OF_BOUNDS, pointer, "too_large", str(error))
    return _refused(Refusal.UNDECODABLE, pointer, "undecodable", _why_undecodable(error))


def _why_undecodable(error: Exception) -> str:
    if isinstance(error, MalformedError):
        return str(error)
    if isinstance(error, IndexError | struct.error):
        return "the record ends before or inside this field"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, KeyError):
        return "no such symbol"
    if isinstance(error, TypeError):
        return "a negative length"  # see `primitives.LENGTHS`
    return f"can't be decoded ({type(error).__name__})"


def _unwritable(error: Exception, function: Function) -> Refused:
    pointer = _pointer(error, function)
    if isinstance(error, WrongTypeError):
        return _refused(Refusal.OUT_OF_BOUNDS, pointer, "wrong_type", str(error))
    if isinstance(error, UnicodeEncodeError):
        return _refused(Refusal.OUT_OF_BOUNDS, pointer, "bad_characters", "is not valid Unicode text")
    return _refused(
        Refusal.OUT_OF_BOUNDS, pointer, "wrong_type", f"can't be written ({type(error).__name__})"
    )


def _refused(reason: Refusal, pointer: str, code: str, detail: str) -> Refused:
    error: Any = FieldError(pointer, code, detail)
    return Refused(reason, f"{pointer}: {detail}" if pointer else detail, (error,))
