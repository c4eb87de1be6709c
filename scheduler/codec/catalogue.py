"""All record types, and where each is accepted."""

from typing import Any, Final

import msgspec

from scheduler.codec import commands, job, lifecycle, meta, notices, reports, retry, state
from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec

PLACES: Final[tuple[tuple[str, Family[Any]], ...]] = (
    ("submit.*", job.JOBS),
    ("reports", reports.REPORTS),
    ("leases.*", notices.NOTICES),
    ("commands", commands.COMMANDS),
    ("retry.*", retry.RETRIES),
    ("changelog", state.STATES),
    ("changelog", meta.METAS),
    ("lifecycle", lifecycle.CHANGES),
)
"""Topics without prefix, and the records on them. `changelog` also holds job records as they were submitted."""


class Entry(msgspec.Struct, frozen=True):
    """One record type and the topics that it goes to."""

    codec: RecordCodec[Any]
    topics: tuple[str, ...]


def entries() -> tuple[Entry, ...]:
    """Return all record types, job records first."""
    return tuple(
        Entry(codec, (topic, "changelog") if topic == "submit.*" else (topic,))
        for topic, family in PLACES
        for codec in family.codecs
    )
