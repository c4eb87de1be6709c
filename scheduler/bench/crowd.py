"""Thousands of workers in one process: they hold what they are given for ever, and say so as real ones do."""

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from heapq import heapify, heapreplace

from confluent_kafka import Consumer, Producer, TopicPartition

from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import encode_report
from scheduler.core.notices import Lease
from scheduler.core.reports import Beat, Held, Offer, Report, Sender
from scheduler.core.timing import LEASE_DEFAULT_MS, Timing

_INBOXES = 64
_OFFER_PARTS = 4  # records in a round of offers, see `worker/offers.py`
_BEAT_EVERY_S = LEASE_DEFAULT_MS / 4 / 1_000
ROUND_S = _BEAT_EVERY_S + 1.0
"""After so long each worker has beaten once, and what came of that has committed."""
_OFFER_EVERY_S = Timing().offer_repeat_ms / 1_000
_GRANT_S = 60.0


class Crowd:
    """Workers with an identity and an inbox each; `sent` counts their records, `leased` what they were given."""

    def __init__(self, properties: Mapping[str, str], prefix: str, shards: int, workers: int) -> None:
        """Read all inboxes from their ends."""
        self._reports = f"{prefix}reports"
        self._shards = shards
        self._senders = [
            Sender(f"crowd-{n}", os.urandom(16), "default", n % _INBOXES) for n in range(workers)
        ]
        self._by_boot = {sender.boot_id: n for n, sender in enumerate(self._senders)}
        self._held: list[dict[int, list[Held]]] = [defaultdict(list) for _ in self._senders]
        self._sequences = [0] * workers
        self.sent = self.leased = 0
        settings = {
            **properties,
            "group.id": "crowd",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.queue.backoff.ms": 2,
        }
        self._consumer = Consumer(settings)
        ends = [TopicPartition(f"{prefix}leases.default", inbox) for inbox in range(_INBOXES)]
        for end in ends:
            end.offset = self._consumer.get_watermark_offsets(end, timeout=10)[1]
        self._consumer.assign(ends)
        self._producer = Producer(
            {**properties, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
        )

    def take(self, jobs: int) -> None:
        """Offer until `jobs` more have been leased, evenly."""
        wanted, deadline, offer_at = self.leased + jobs, time.monotonic() + _GRANT_S, 0.0
        while self.leased < wanted:
            now = time.monotonic()
            if now > deadline:
                raise RuntimeError(f"{wanted - self.leased} of {jobs} jobs were not leased in {_GRANT_S} s")
            if now >= offer_at:
                offer_at = now + _OFFER_EVERY_S
                slots = -(-(wanted - self.leased) // len(self._senders))
                for worker in range(min(len(self._senders), wanted - self.leased)):
                    self._offer(worker, slots)
            self._listen(0.05)

    def talk(self, seconds: float, idle_slots: int) -> None:
        """Beat and offer for so long, each worker at its own times."""
        began, workers = time.monotonic(), len(self._senders)
        due = [(began + n / workers * _BEAT_EVERY_S, n, _BEAT_EVERY_S) for n in range(workers)]
        due += [(began + n / workers * _OFFER_EVERY_S, n, _OFFER_EVERY_S) for n in range(workers)]
        heapify(due)
        while due[0][0] < began + seconds:
            at, worker, every_s = due[0]
            wait_s = at - time.monotonic()
            if wait_s > 0:
                self._listen(wait_s)
                continue
            if every_s == _BEAT_EVERY_S:
                self._beat(worker)
            else:
                self._offer(worker, idle_slots)
            heapreplace(due, (at + every_s, worker, every_s))

    def close(self) -> None:
        """Send what is left and close."""
        self._producer.flush(10)
        self._consumer.close()

    def _beat(self, worker: int) -> None:
        for shard, held in self._held[worker].items():
            self._say(Beat(self._senders[worker], tuple(held)), shard)

    def _offer(self, worker: int, slots: int) -> None:
        self._sequences[worker] += 1
        for part in range(min(_OFFER_PARTS, slots)):
            share = slots // _OFFER_PARTS + (part < slots % _OFFER_PARTS)
            offer = Offer(self._senders[worker], self._sequences[worker], share)
            self._say(offer, (worker + part * self._shards // _OFFER_PARTS) % self._shards)

    def _say(self, report: Report, shard: int) -> None:
        self._producer.produce(self._reports, encode_report(report), partition=shard)
        self.sent += 1

    def _listen(self, wait_s: float) -> None:
        self._producer.poll(0)
        first = self._consumer.poll(wait_s)
        for message in ([first] if first is not None else []) + self._consumer.consume(1_000, 0):
            value = message.value()
            notice = decode_notice(value) if message.error() is None else None
            if isinstance(notice, Lease) and notice.boot_id in self._by_boot:
                held = self._held[self._by_boot[notice.boot_id]][notice.shard]
                held.append(Held(notice.job_id, notice.epoch, notice.token))
                self.leased += 1
