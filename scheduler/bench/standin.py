"""A worker stand-in: answers every lease at once, so that a bench measures the scheduler and not the jobs."""

import os
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, Producer, TopicPartition

from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import encode_report
from scheduler.core.notices import Lease
from scheduler.core.reports import Done, Freed, Offer, Sender

_BATCH = 1_000


class StandIn:
    """One worker's worth of slots, in this process, without any handler."""

    def __init__(
        self, properties: Mapping[str, str], prefix: str, *, slots: int, shards: int, pool: str = "default"
    ) -> None:
        """Assign an inbox at its end; nothing is offered before `offer`."""
        self._reports = f"{prefix}reports"
        self._slots = slots
        self._shards = shards
        self._sequence = self._turn = 0
        self._offered_at = 0.0
        self._answered_at = 0.0
        self._consumer = Consumer(
            {
                **properties,
                "group.id": "bench",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 2,
            }
        )
        inbox = TopicPartition(f"{prefix}leases.{pool}", os.getpid() % 64)
        end = self._consumer.get_watermark_offsets(inbox, timeout=10)[1]
        self._consumer.assign([TopicPartition(inbox.topic, inbox.partition, end)])
        self._producer = Producer(
            {**properties, "enable.idempotence": True, "linger.ms": 1, "compression.type": "lz4"}
        )
        self._sender = Sender(f"bench-{os.getpid()}", os.urandom(16), pool, inbox.partition)

    def offer(self) -> None:
        """Offer all slots, spread over the shards: each time to the next ones, so that every dispatcher gets some."""
        self._sequence += 1
        self._turn += 1
        parts = min(4, self._shards)
        for n in range(parts):
            slots = self._slots // parts + (n < self._slots % parts)
            if slots:
                value = encode_report(Offer(self._sender, self._sequence, slots, takes_suspect=False))
                shard = (self._turn + n * self._shards // parts) % self._shards
                self._producer.produce(self._reports, value, partition=shard)
        self._producer.flush(10)
        self._offered_at = time.monotonic()

    def step(self, wait_s: float, leased: Callable[[Lease, int], None]) -> int:
        """Answer what has come within `wait_s`; `leased` hears each lease and its arrival in Unix ms."""
        first = self._consumer.poll(wait_s)
        messages = ([first] if first is not None else []) + self._consumer.consume(_BATCH, 0)
        answered = 0
        for message in messages:
            if message.error() is not None:
                continue
            notice = decode_notice(message.value())
            if isinstance(notice, Lease) and notice.boot_id == self._sender.boot_id:
                leased(notice, time.time_ns() // 1_000_000)
                self._answer(notice)
                answered += 1
        self._producer.poll(0)
        now = time.monotonic()
        if answered:
            self._answered_at = now
        elif now - max(self._answered_at, self._offered_at) > 1:
            self.offer()
        return answered

    def close(self) -> None:
        """Send what is left and close."""
        self._producer.flush(10)
        self._consumer.close()

    def _answer(self, lease: Lease) -> None:
        self._sequence += 1
        done = Done(
            self._sender, lease.job_id, lease.epoch, lease.token, 1, b"null", freed=Freed(self._sequence)
        )
        self._producer.produce(self._reports, encode_report(done), partition=lease.shard)
