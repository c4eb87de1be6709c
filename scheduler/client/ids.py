"""UUIDv7 job ids (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits."""

import os
import time
from typing import Final

_BATCH: Final = 256
_RANDOM_BYTES: Final = 10
_random: Final[list[int]] = []
# A forked child must not hand out the numbers that its parent holds. Everything else here is atomic: pop and
# extend of a list each happen under the interpreter's lock, and a number is popped once.
os.register_at_fork(after_in_child=_random.clear)


def uuid7() -> str:
    """Return a new id as text."""
    try:
        noise = _random.pop()
    except IndexError:
        noise = _refill()
    now_ms = time.time_ns() // 1_000_000
    low = 0x8000_0000_0000_0000 | (noise & 0x3FFF_FFFF_FFFF_FFFF)
    text = f"{now_ms << 16 | 0x7000 | (noise >> 64) & 0xFFF:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _refill() -> int:
    block = os.urandom(_RANDOM_BYTES * _BATCH)
    numbers = [int.from_bytes(block[n : n + _RANDOM_BYTES], "big") for n in range(0, len(block), _RANDOM_BYTES)]
    mine = numbers.pop()
    _random.extend(numbers)
    return mine
