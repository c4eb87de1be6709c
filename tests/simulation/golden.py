"""Seeds that found something once. A profile keeps its name and its faults for their sake; new ones come at the end.

What a seed reaches changes with the code all the same. So each names the variant that has its bug again: with that it
must be found, or it is replaced by one that finds it.
"""

import msgspec


class Case(msgspec.Struct, frozen=True):
    """One seed, and what it found."""

    seed: int
    profile: str
    found: str
    variant: str


GOLDEN = (
    Case(
        3,
        "short jobs",
        "a catch-up restore took a job that had come and gone for an orphan, and dead-lettered it",
        "gone_jobs_taken_for_orphans",
    ),
    Case(
        104,
        "sleepers",
        "a retry went by the time after an echo, and was written down with the earlier one from before",
        "retries_by_a_later_time",
    ),
)
