"""UUIDv7 job ids (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits."""

import os
import time
from typing import Final

_BATCH: Final = 256
_DIGITS: Final = (
    19  # random hexadecimal digits of one id; the first of the fourth group is the variant with two bits
)
_VARIANT: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
_tails: Final[list[str]] = []
# A forked child must not hand out the tails that its parent holds. Everything else here is atomic: pop and
# extend of a list each happen under the interpreter's lock, and a tail is popped once.
os.register_at_fork(after_in_child=_tails.clear)


def uuid7() -> str:
    """Return a new id as text."""
    try:
        tail = _tails.pop()
    except IndexError:
        tail = _refill()
    head = f"{time.time_ns() // 1_000_000:012x}"
    return f"{head[:8]}-{head[8:]}-7{tail}"


def _refill() -> str:
    digits = os.urandom(_DIGITS * _BATCH // 2).hex()
    tails = [_tail(digits[n : n + _DIGITS]) for n in range(0, len(digits), _DIGITS)]
    mine = tails.pop()
    _tails.extend(tails)
    return mine


def _tail(digits: str) -> str:
    return f"{digits[:3]}-{_VARIANT[digits[3]]}{digits[4:7]}-{digits[7:]}"
