"""One transaction for one turn, in the one order that is safe.

begin -> produce -> flush -> fence -> commit, then the stores, then what leaves outside the transaction.
Every transaction carries at least one `reports` offset of a shard held here, under group metadata that was
taken after the turn's poll: without it the broker could not refuse a suspended owner's turn.
"""

import logging
from collections.abc import Callable, Iterable

from scheduler.core.changes import NoticeOut
from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Log, Outgoing
from scheduler.dispatcher.seat import Seat
from scheduler.dispatcher.writing import Written, encode_released

_log = logging.getLogger(__name__)


def commit(
    log: Log,
    parts: list[tuple[Seat, Written]],
    metadata: object,
    failpoint: Callable[[str], None],
    *,
    extra: dict[tuple[int, Input], int],
) -> dict[int, int]:
    """Commit the turn; return the last changelog offset by shard. `extra` are group offsets for lag tools."""
    offsets = {(seat.number, Input.REPORTS): seat.positions[Input.REPORTS] for seat, _ in parts}
    if not offsets:
        raise AssertionError("a transaction without any reports offset would have no fence")
    log.begin()
    for seat, written in parts:
        log.produce_changelog(seat.number, written.entries)
        log.produce(written.records)
    last = log.flush()
    log.fence(extra | offsets, metadata)
    failpoint("before_commit")
    log.commit()
    failpoint("after_commit")
    return last


def apply(parts: Iterable[tuple[Seat, Written]], last: dict[int, int], now_ms: int) -> list[NoticeOut]:
    """Bring stores and memory to the turn's end; return the notices that may now leave."""
    notices: list[NoticeOut] = []
    for seat, written in parts:
        shard = seat.shard
        puts, deletes = shard.batch(written.entries)
        if seat.store is None:
            raise AssertionError(f"shard {seat.number} has no store")
        seat.store.write(puts, deletes, last[seat.number] + 1, now_ms)
        notices.extend(shard.changes.notices)
        shard.applied()
        seat.committed_as(written.meta)
    return notices


def release(log: Log, notices: list[NoticeOut]) -> None:
    """Send leases and notices, outside any transaction.

    One that can't be encoded is left out: the turn has committed, and a lease that never arrives expires.
    """
    records: list[Outgoing] = []
    for notice in notices:
        try:
            records.append(encode_released(notice))
        except Exception:  # noqa: BLE001 - whatever a bug of ours raises
            job_id = getattr(notice.notice, "job_id", "")
            _log.exception(
                "a bug was met: a notice to %s/%d is not sent, job %s", notice.pool, notice.inbox, job_id
            )
    if records:
        log.release(records)
