"""Numbers of every length, against the definition of the varint."""

import random

import pytest

from scheduler.codec.primitives import MalformedError, far_int, far_long, put_long

BITS = range(8, 64)


def by_definition(data: bytes) -> int:
    z = sum((byte & 0x7F) << 7 * group for group, byte in enumerate(data))
    return (z >> 1) ^ -(z & 1)


def some() -> list[int]:
    """Return numbers around each power of two, and some between, of both signs."""
    dice = random.Random(7)
    found = [(1 << bits - 1) + step for bits in BITS for step in (-2, -1, 0, 1)]
    found += [dice.randrange(1 << bits - 1, 1 << bits) for bits in BITS[:-1] for _ in range(20)]
    found += [-number for number in found]
    return [number for number in found if -(1 << 63) <= number < 1 << 63 and len(put_long(number)) > 1]


def test_numbers_of_every_length_are_read_to_their_end():
    numbers = some()
    assert {len(put_long(number)) for number in numbers} == set(range(2, 11))
    for number in numbers:
        encoded = put_long(number)
        assert far_long(b"#" + encoded + b"\xff", 2, encoded[0]) == (number, 1 + len(encoded))
        assert by_definition(encoded) == number
        if -(1 << 31) <= number < 1 << 31:
            assert far_int(encoded, 1, encoded[0]) == (number, len(encoded))


def test_a_number_that_ends_early_is_missed():
    for number in some():
        encoded = put_long(number)
        for end in range(1, len(encoded)):
            with pytest.raises(IndexError):
                far_long(encoded[:end], 1, encoded[0])


def test_numbers_written_longer_than_need_be_are_read_all_the_same():
    assert far_long(b"\x82\x80\x80\x80\x80\x00", 1, 0x82) == (1, 6)
    with pytest.raises(MalformedError):
        far_long(b"\xff" * 10, 1, 0xFF)
