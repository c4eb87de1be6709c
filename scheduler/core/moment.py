"""Time and chance of one turn, read once at the edge and handed down as arguments."""

from typing import Protocol

import msgspec


class Chance(Protocol):
    """Where randomness comes from."""

    def fraction(self) -> float:
        """Return a number uniform in [0, 1)."""

    def token(self) -> bytes:
        """Return 16 random bytes that nobody can guess."""


class Moment(msgspec.Struct, frozen=True):
    """`now_ms` is wall time, for due times only; `mono_ms` never steps and is for leases only."""

    now_ms: int
    mono_ms: int
    chance: Chance
