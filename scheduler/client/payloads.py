"""Values to JSON payloads, refusing what JSON would change in silence."""

import datetime
import math
from typing import Any, Final

import msgspec

from scheduler.client.errors import InvalidJob

JSON: Final = "application/json"

UNSENDABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding raises for a value that JSON can't hold."""

_encoder: Final = msgspec.json.Encoder()


def is_json(content_type: str) -> bool:
    """Say whether a content type is JSON, whatever its parameters."""
    return content_type == JSON or content_type.partition(";")[0].strip().lower() == JSON


def payload_of(name: str, value: Any, content_type: str) -> bytes:
    """Return the payload for a value given to `Client.submit`. Raises `InvalidJob`, beginning with `name`.

    None is a call without arguments; bytes are a payload already, and under JSON must be JSON.
    """
    if not is_json(content_type):
        if not isinstance(value, bytes):
            raise InvalidJob(f"{name}: payload must be bytes under content type {content_type}")
        return value
    if value is None:
        return b"{}"
    try:
        if isinstance(value, bytes):
            msgspec.json.decode(value)
            return value
        problem = unfit(value)
        encoded = _encoder.encode(value)
    except UNSENDABLE as error:
        raise InvalidJob(f"{name}: payload is not JSON: {error}") from None
    if problem is not None:
        raise InvalidJob(f"{name}: payload {problem}")
    return encoded


def unfit(value: Any) -> str | None:
    """Find a time without zone or a number that JSON does not know; raises one of `UNSENDABLE` as encoding does."""
    return _unfit(msgspec.to_builtins(value, builtin_types=(datetime.datetime, datetime.time)))


def _unfit(plain: Any) -> str | None:
    if isinstance(plain, datetime.datetime | datetime.time):
        return (
            None
            if plain.tzinfo is not None
            else f"has a time without zone, {plain.isoformat()}: make it aware"
        )
    if isinstance(plain, float):
        return None if math.isfinite(plain) else f"has a number that JSON does not know, {plain}"
    inner = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list | tuple) else ()
    return next((problem for problem in map(_unfit, inner) if problem is not None), None)
