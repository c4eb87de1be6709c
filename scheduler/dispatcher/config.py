"""What one dispatcher is told at start, checked and frozen."""

import msgspec

from scheduler.core import bounds
from scheduler.core.settings import Settings
from scheduler.core.timing import Timing


class Ground(msgspec.Struct, frozen=True):
    """The topics as they were found on the broker at start."""

    cluster_id: str
    prefix: str
    shards: int
    topic_ids: dict[str, str]
    lifecycle_partitions: int
    changelog_retention_ms: int  # `delete.retention.ms`: how long tombstones can be relied upon


class Config(msgspec.Struct, frozen=True):
    """Settings and budgets of one dispatcher process."""

    ground: Ground
    settings: Settings
    timing: Timing = Timing()
    turn_records: int = bounds.TURN_RECORDS
    turn_bytes: int = bounds.TURN_BYTES
    turn_decide_ms: int = bounds.TURN_DECIDE_MS
    wait_ms: int = 4  # this long for `reports` when all inputs are empty
    rest_ms: int = 8  # this long nothing is done while nothing comes in, or a few reports only
    completions_wait_ms: int = 8  # ended runs alone wait this long for others to share a transaction with
    positions_every_ms: int = 1_000  # positions without any change are committed this often
    offsets_every_ms: int = 5_000  # the other group offsets, for lag tools only
    restore_slice_ms: int = 5
    housekeeping_every_ms: int = 1_000
    forget_every_ms: int = 60_000  # shards tell each other this often how far submits were read
    delete_every_ms: int = bounds.HOUR_MS
    held_back_ms: int = 300  # an open transaction holds a restore back this long before its owner is fenced
    accepted_losses: dict[tuple[str, int], int] = {}  # where inputs go on that lost their place: see `losses`
    standby_replicas: int = 0  # so many others keep a warm copy of each shard
    standby_share_percent: int = 20  # of its time goes into keeping copies at most, while they are behind
    standby_slice_ms: int = 10  # at a time at most
    standby_rest_ms: int = 20  # until it is looked again whether their changelogs have more
    roster_every_ms: int = 10_000  # who else is in the group, and so which copies are kept here
