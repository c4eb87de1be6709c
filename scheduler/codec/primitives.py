"""Avro's numbers and lengths, as the generated encoders and decoders use them (see `generate`).

Avro writes numbers as zig-zag varints: n >= 0 becomes 2n, n < 0 becomes -2n - 1, in groups of seven bits,
lowest first. Most numbers of ours take one or two bytes, so those come from tables.
"""

from struct import Struct
from typing import Any, Final

ZERO: Final = b"\x00"  # also: no items, and the first branch of a union
FIRST: Final = b"\x02"  # branch 1 of a union
FLAGS: Final = {False: b"\x00", True: b"\x01"}
BOOLEANS: Final = {0: False, 1: True}
SMALL: Final = tuple((z >> 1) ^ -(z & 1) for z in range(128))
"""The number that each one-byte varint means."""
LENGTHS: Final = tuple(None if z & 1 else z >> 1 for z in range(128))
"""The same for lengths; None, which adds to nothing, for negative ones."""
VARINTS: Final = tuple(bytes([z]) if z < 128 else bytes([z & 0x7F | 0x80, z >> 7]) for z in range(1 << 14))
NUMBERS: Final = VARINTS[::2]
"""The varint of each number from 0 to 8191."""

GROUPS: Final = tuple(bytes([z & 0x7F | 0x80, z >> 7 | 0x80]) for z in range(1 << 14))
"""Two varint bytes that are not the last, of each 14 bits."""

_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1

unpack_double: Final = Struct("<d").unpack_from
_pack_double: Final = Struct("<d").pack


class MalformedError(Exception):
    """Bytes that are no such record. The text never holds any of them."""


class OverLimitError(Exception):
    """More items or bytes than a field may have, or a number outside its range."""

    def __init__(self, found: int, limit: int, unit: str, side: str = "above") -> None:
        super().__init__(f"{found} {unit} {side} the limit {limit}")


class WrongTypeError(Exception):
    """A value that its field can't hold."""


def out_of_range(found: int, low: int, high: int) -> OverLimitError:
    """Return the error for a number that is not between `low` and `high`."""
    return OverLimitError(found, high, "is") if found > high else OverLimitError(found, low, "is", "below")


def wrong_type(value: object, wanted: str) -> WrongTypeError:
    """Return the error for a value of the wrong type or size; it says nothing of what the value holds."""
    size = f" of {len(value)}" if isinstance(value, bytes) else ""
    return WrongTypeError(f"must be {wanted}, got {type(value).__name__}{size}")


def far(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return a varint of two bytes or more whose first byte is read, and the position behind it.

    Raises `IndexError` at the end of the data and `MalformedError` for more than 64 bits.
    """
    byte = data[position]
    if byte < 128:
        return first - 128 | byte << 7, position + 1
    number = first - 128 | (byte - 128) << 7
    byte = data[position + 1]
    if byte < 128:
        return number | byte << 14, position + 2
    number |= (byte - 128) << 14
    shift = 21
    position += 2
    while True:
        byte = data[position]
        position += 1
        if byte < 128:
            number |= byte << shift
            if number >> 64:
                raise MalformedError("a number of more than 64 bits")
            return number, position
        number |= (byte - 128) << shift
        shift += 7
        if shift > 63:
            raise MalformedError("a number of more than 64 bits")


def far_long(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return a long of two bytes or more, and the position behind it.

    Written out for up to four bytes, and for the six that a time takes: a state holds ten such numbers. The marks of
    the bytes that are not the last are taken off all at once.
    """
    second = data[position]
    if second < 128:
        z = first + (second << 7) - 0x80
        return (z >> 1) ^ -(z & 1), position + 1
    third = data[position + 1]
    if third < 128:
        z = first + (second << 7) + (third << 14) - 0x4080
        return (z >> 1) ^ -(z & 1), position + 2
    fourth = data[position + 2]
    low = first + (second << 7) + (third << 14) + (fourth << 21)
    if fourth < 128:
        z = low - 0x204080
        return (z >> 1) ^ -(z & 1), position + 3
    fifth = data[position + 3]
    if fifth > 127 and (sixth := data[position + 4]) < 128:
        z = low + (fifth << 28) + (sixth << 35) - 0x810204080
        return (z >> 1) ^ -(z & 1), position + 5
    z, position = far(data, position, first)
    return (z >> 1) ^ -(z & 1), position


def far_int(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return an int of two bytes or more, and the position behind it."""
    z, position = far(data, position, first)
    if z >> 32:
        raise MalformedError("an int of more than 32 bits")
    return (z >> 1) ^ -(z & 1), position


def far_span(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return where a string starts and ends whose length takes two bytes or more."""
    z, position = far(data, position, first)
    if z & 1:
        raise MalformedError("a negative length")
    return position, position + (z >> 1)


def block_head(data: bytes, position: int, first: int) -> tuple[int, int, int]:
    """Return the count of a block, its size in bytes or -1 if not told, and where its items start.

    A negative count, -n, says that the size follows: some libraries write every block so.
    """
    count, position = far_long(data, position, first) if first > 127 else (SMALL[first], position)
    if count >= 0:
        return count, -1, position
    size = data[position]
    position += 1
    if size > 127:
        start, end = far_span(data, position, size)
        return -count, end - start, start
    if size & 1:
        raise MalformedError("a negative size")
    return -count, size >> 1, position


def _long_varint(z: int) -> bytes:
    out = bytearray()
    while z > 127:
        out.append(z & 0x7F | 0x80)
        z >>= 7
    out.append(z)
    return bytes(out)


def put_long(value: Any) -> bytes:
    """Return the varint of an integer of at most 64 bits; a bool or float is none."""
    if not isinstance(value, int) or value.__class__ is bool:
        raise wrong_type(value, "an integer")
    if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
        raise WrongTypeError("must fit 64 bits")
    z = (value << 1) ^ (value >> 63)
    if z < 1 << 14:
        return VARINTS[z]
    if z < 1 << 28:
        return GROUPS[z & 0x3FFF] + VARINTS[z >> 14]
    if z < 1 << 42:  # times up to the year 2039
        return GROUPS[z & 0x3FFF] + GROUPS[z >> 14 & 0x3FFF] + VARINTS[z >> 28]
    return _long_varint(z)


def put_int(value: Any) -> bytes:
    """Return the varint of an integer of at most 32 bits."""
    encoded = put_long(value)
    if not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise WrongTypeError("must fit 32 bits")
    return encoded


def put_double(value: Any) -> bytes:
    """Return the eight bytes of a finite number."""
    if value.__class__ is not float and (not isinstance(value, int | float) or value.__class__ is bool):
        raise wrong_type(value, "a number")
    if value - value != 0:
        raise WrongTypeError("must be finite")
    return _pack_double(value)
