"""Seeds that found something once. A profile keeps its name and its faults for their sake; new ones come at the end."""

import msgspec


class Case(msgspec.Struct, frozen=True):
    """One seed, and what it found."""

    seed: int
    profile: str
    found: str


GOLDEN = (
    Case(
        3,
        "short keep",
        "a catch-up restore took a job that had come and gone for an orphan, and dead-lettered it",
    ),
)
