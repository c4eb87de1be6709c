"""What leaves a worker process: offers, beats, reports, and the second try of those that did not arrive."""

from collections import Counter
from typing import Final

import msgspec

from scheduler.core.reports import Beat, Checkpoint, Freed, Offer, Report, Sender
from scheduler.core.timing import Timing
from scheduler.worker.actions import Action, ConfirmSave
from scheduler.worker.offers import NEVER, OfferBook, Placed
from scheduler.worker.outbox import Mail, Outbox
from scheduler.worker.runs import RunTable

RESEND_MS: Final = 500
"""How long an undelivered report, or the next offer after a failed one, waits."""


class SessionConfig(msgspec.Struct, frozen=True):
    """What one worker process is. `reserved` of its `slots` accept interactive work only."""

    sender: Sender
    shards: int
    slots: int
    types: frozenset[str]
    reserved: int = 0
    timing: Timing = Timing()
    grace_ms: int = 5_000  # between asking a handler to leave and killing it
    linger_ms: int = 300  # how long a drained process answers leases that were under way


class Desk:
    """Collects the actions of one event, the sending ones by itself.

    `wake_ms` is never later than the next time that something is due.
    """

    def __init__(self, config: SessionConfig, runs: RunTable, counts: Counter[str]) -> None:
        """Take the runs to renew, and where to count what went wrong."""
        self._config = config
        self._timing = config.timing
        self._runs = runs
        self._counts = counts
        self._outbox = Outbox()
        self._offers_after_ms = 0
        self.actions: list[Action] = []
        self.wake_ms = 0
        self.book = OfferBook(
            slots=config.slots,
            reserved=config.reserved,
            shards=config.shards,
            boot_id=config.sender.boot_id,
            timing=config.timing,
        )

    def wake_at(self, at_ms: int) -> None:
        """See to it that `periodic` runs at `at_ms` at the latest."""
        self.wake_ms = min(self.wake_ms, at_ms)

    def send(
        self, partition: int, report: Report, now_ms: int, runs: tuple[int, ...] = (), number: int = 0
    ) -> None:
        """Send a report about these runs."""
        self.actions.append(self._outbox.send(partition, report, now_ms, runs, number))

    def settle(self, ticket: int) -> Mail | None:
        """Take the report whose fate is known now."""
        mail = self._outbox.settle(ticket)
        if mail is not None and isinstance(mail.report, Offer):
            self.wake_at(mail.sent_ms)  # offers may have been held back for it
        return mail

    def unconfirmed(self) -> int:
        """Return how many reports of runs Kafka has not confirmed."""
        return len(self._outbox)

    def freed(self, kind: int, shard: int, now_ms: int) -> Freed | None:
        """Offer an idle slot in a report to `shard`."""
        self.wake_at(now_ms + self._timing.offer_repeat_ms)
        return self.book.freed(kind, shard, now_ms, takes_suspect=not self._runs.has_suspect())

    def withdraw(self, now_ms: int) -> bool:
        """Offer nothing any more, and say so where slots stand; return whether any did."""
        placed = self.book.withdraw()
        for record in placed:
            self._offer(record, now_ms)
        return bool(placed)

    def periodic(self, now_ms: int) -> None:
        """Send what is due by now, and find out when to look again."""
        if now_ms < self.wake_ms and not self.book.has_idle:
            return
        self._resend(now_ms)
        self._beats(now_ms)
        self._offers(now_ms)
        self.wake_ms = min(self._runs.wake_ms(), self._outbox.next_ms(), self._next_offers_ms(now_ms))

    def undelivered(self, mail: Mail, now_ms: int, *, retriable: bool, why: str) -> None:
        """See to a report that Kafka does not have."""
        report = mail.report
        self._counts["undelivered_reports"] += 1
        self.wake_at(now_ms + RESEND_MS)
        if isinstance(report, Offer):
            self.book.lost(report.sequence)
            self._offers_after_ms = now_ms + RESEND_MS
        elif isinstance(report, Beat):
            self._beat_soon(mail.runs, now_ms)
        elif retriable:
            self._outbox.put_off(mail, now_ms + RESEND_MS)
        elif isinstance(report, Checkpoint):
            self.actions.append(ConfirmSave(mail.runs[0], mail.number, why))
        else:
            self._counts["refused_reports"] += 1
            instead = self._outbox.instead(mail, why, now_ms)
            if instead is not None:
                self.actions.append(instead)

    def _beat_soon(self, numbers: tuple[int, ...], now_ms: int) -> None:
        for number in numbers:
            run = self._runs.get(number)
            if run is not None and now_ms < run.deadline_ms:
                run.beat_ms = min(run.beat_ms, now_ms + RESEND_MS)

    def _resend(self, now_ms: int) -> None:
        for mail in self._outbox.due(now_ms):
            if isinstance(mail.report, Checkpoint) and self._runs.get(mail.runs[0]) is None:
                continue
            self.send(mail.partition, mail.report, now_ms, mail.runs, mail.number)

    def _beats(self, now_ms: int) -> None:
        for shard, runs in self._runs.beats_due(now_ms):
            beat = Beat(self._config.sender, tuple(run.held() for run in runs))
            self.send(shard, beat, now_ms, tuple(run.number for run in runs))

    def _offers(self, now_ms: int) -> None:
        if now_ms < self._offers_after_ms or self._held(now_ms):
            return
        for placed in self.book.rounds(now_ms, takes_suspect=not self._runs.has_suspect()):
            self._offer(placed, now_ms)

    def _offer(self, placed: Placed, now_ms: int) -> None:
        offer = Offer(
            self._config.sender, placed.sequence, placed.slots, placed.lowest_band, placed.takes_suspect
        )
        self.send(placed.partition, offer, now_ms)

    def _next_offers_ms(self, now_ms: int) -> int:
        return NEVER if self._held(now_ms) else max(self.book.next_ms(), self._offers_after_ms)

    def _held(self, now_ms: int) -> bool:
        """While Kafka takes nothing, more offers would only arrive together, and too old, once it does."""
        oldest_ms = self._outbox.oldest_offer_ms()
        return oldest_ms is not None and now_ms - oldest_ms >= self._timing.offer_repeat_ms
