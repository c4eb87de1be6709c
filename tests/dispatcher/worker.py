"""A worker that does what a test tells it; it keeps what it was sent."""

import itertools
from typing import Any

import msgspec

from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import encode_report
from scheduler.core.job import ErrorInfo
from scheduler.core.notices import Lease, Notice, Revoke
from scheduler.core.reports import (
    Beat,
    Checkpoint,
    Done,
    Fail,
    Freed,
    Held,
    Offer,
    Release,
    ReleaseReason,
    Report,
    Sender,
    Verdict,
)
from scheduler.testing.memory_broker import MemoryBroker

_boots = itertools.count(1)


class Worker:
    """One incarnation: another one has another boot id, whatever its name."""

    def __init__(
        self, broker: MemoryBroker, clock: Any, *, name: str = "w", pool: str = "default", inbox: int = 0
    ) -> None:
        self._broker = broker
        self._clock = clock
        self.sender = Sender(name, next(_boots).to_bytes(16, "big"), pool, inbox, "r1")
        self.sequence = 0
        self.notices: list[Notice] = []
        self._read = len(broker.log(self._topic, inbox))

    @property
    def _topic(self) -> str:
        return f"leases.{self.sender.pool}"

    def say(self, shard: int, report: Report) -> None:
        """Append a report."""
        self._broker.append("reports", shard, None, encode_report(report), at_ms=self._clock.broker_ms())

    def hear(self) -> list[Notice]:
        """Return what has come since the last call and is meant for this incarnation."""
        log = self._broker.log(self._topic, self.sender.inbox)
        new = [decode_notice(stored.value) for stored in log[self._read :]]
        self._read = len(log)
        mine = [notice for notice in new if notice.boot_id == self.sender.boot_id]
        self.notices += mine
        return mine

    def leases(self) -> list[Lease]:
        return [notice for notice in self.hear() if isinstance(notice, Lease)]

    def revokes(self) -> list[Revoke]:
        return [notice for notice in self.hear() if isinstance(notice, Revoke)]

    # -- what it says ------------------------------------------------------------------------------------

    def offer(
        self,
        slots: int = 1,
        *,
        shard: int = 0,
        lowest_band: int = 2,
        takes_suspect: bool = False,
        sequence: int = 0,
    ) -> Offer:
        if not sequence:
            self.sequence += 1
        offer = Offer(self.sender, sequence or self.sequence, slots, lowest_band, takes_suspect)
        self.say(shard, offer)
        return offer

    def freed(self, *, lowest_band: int = 2, takes_suspect: bool = False) -> Freed:
        self.sequence += 1
        return Freed(self.sequence, lowest_band, takes_suspect)

    def done(self, lease: Lease, **fields: Any) -> None:
        self.say(lease.shard, Done(self.sender, lease.job_id, lease.epoch, lease.token, **fields))

    def fail(self, lease: Lease, verdict: Verdict = Verdict.RETRY, **fields: Any) -> None:
        fields.setdefault("error", ErrorInfo("ValueError", "no", ("frame",)))
        self.say(lease.shard, Fail(self.sender, lease.job_id, lease.epoch, lease.token, verdict, **fields))

    def release(self, lease: Lease, reason: ReleaseReason = ReleaseReason.BUSY, **fields: Any) -> None:
        self.say(lease.shard, Release(self.sender, lease.job_id, lease.epoch, lease.token, reason, **fields))

    def beat(self, *leases: Lease) -> None:
        for shard in sorted({lease.shard for lease in leases}):
            held = tuple(Held(one.job_id, one.epoch, one.token) for one in leases if one.shard == shard)
            self.say(shard, Beat(self.sender, held))

    def checkpoint(self, lease: Lease, data: bytes) -> None:
        self.say(lease.shard, Checkpoint(self.sender, lease.job_id, lease.epoch, lease.token, data))


def forged(lease: Lease, **changes: Any) -> Lease:
    """Return what somebody would report who knows the lease but for `changes`."""
    return msgspec.structs.replace(lease, **changes)
