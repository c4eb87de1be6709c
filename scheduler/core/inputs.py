"""The topics that a shard reads, and where it stands in each."""

from enum import IntEnum
from typing import Final

import msgspec

from scheduler.core.retry import TIERS
from scheduler.core.spec import BANDS, Band


class Input(IntEnum):
    """One input of a shard: partition p of the topic named by `TOPIC_OF`."""

    REPORTS = 0
    REQUESTS = 1
    COMMANDS = 2
    SUBMIT_INTERACTIVE = 3
    SUBMIT_DEFAULT = 4
    SUBMIT_BULK = 5
    RETRY_5S = 6
    RETRY_30S = 7
    RETRY_2M = 8
    RETRY_10M = 9
    RETRY_30M = 10


TOPIC_OF: Final[dict[Input, str]] = {
    Input.REPORTS: "reports",
    Input.REQUESTS: "requests",
    Input.COMMANDS: "commands",
    Input.SUBMIT_INTERACTIVE: "submit.interactive",
    Input.SUBMIT_DEFAULT: "submit.default",
    Input.SUBMIT_BULK: "submit.bulk",
    **{Input(Input.RETRY_5S + n): f"retry.{tier.name}" for n, tier in enumerate(TIERS)},
}
"""Topic names without the prefix."""

INPUT_OF: Final = {topic: source for source, topic in TOPIC_OF.items()}

SUBMITS: Final = (Input.SUBMIT_INTERACTIVE, Input.SUBMIT_DEFAULT, Input.SUBMIT_BULK)
RETRIES: Final = tuple(Input(Input.RETRY_5S + n) for n in range(len(TIERS)))


def band_of(submit: Input) -> Band:
    """Return the band of a submit topic."""
    return BANDS[submit - Input.SUBMIT_INTERACTIVE]


def tier_of(retry: Input) -> int:
    """Return the index into `retry.TIERS` of a retry topic."""
    return retry - Input.RETRY_5S


class Meta(msgspec.Struct, frozen=True):
    """What a shard knows of itself; the truth about its inputs at take-over.

    `positions` are next offsets by topic name without prefix, and `leader_epochs` the partition leaders' epochs under
    which what lies just before them was appended, as far as they are known: a log that was cut there and has grown
    again tells itself by them. `careful` holds the coordinates `topic@offset` of the one input that is being tried
    alone after unclean take-overs.
    """

    layout: int
    cluster_id: str
    shards: int
    topic_ids: dict[str, str]
    positions: dict[str, int]
    epoch: int = 0  # the last epoch given
    owner: str = ""  # transactional id
    member: str = ""  # group member id
    unclean: int = 0  # take-overs in a row that made no progress
    careful: str = ""
    careful_crashes: int = 0
    written_at_ms: int = 0
    leader_epochs: dict[str, int] = {}


LAYOUT: Final = 1
