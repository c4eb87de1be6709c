"""The clients of a simulated world: they submit jobs, repeat themselves, misroute, and publish rubbish."""

import random
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduler.codec.job import encode_job
from scheduler.core import keys
from scheduler.core.spec import Backoff, Band, JobSpec
from tests.dispatcher.world import TOPIC_OF_BAND
from tests.simulation.dispatcher import BUG, POISON
from tests.simulation.network import Link

if TYPE_CHECKING:
    from tests.simulation.world import World

PATIENCE_MS = 300_000
TRANSACTION_MAX_MS = 8_000  # less than the coordinator's patience


class Clients:
    """All of them: one link, one stream of jobs."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.chance: random.Random = world.chance
        self.link = Link(world.timeline, world.delay_ms, PATIENCE_MS)
        self.submitted = 0
        self.rubbish = self.poison = self.bugs = 0
        self._transactions = 0

    def submit(self) -> None:
        """Submit a job, once or several times."""
        spec = self._spec()
        home = keys.shard_of(spec.job_id, self.world.shards)
        band = self.chance.choice(list(Band))
        self._send(band, home, spec)
        if self.chance.random() < self.world.profile.repeats:
            wait_ms = self.chance.choice(self.world.profile.repeat_after_ms)
            self.world.timeline.after(wait_ms, partial(self._repeat, spec))

    def _repeat(self, spec: JobSpec) -> None:
        home = keys.shard_of(spec.job_id, self.world.shards)
        self._send(self.chance.choice(list(Band)), home, spec)

    def _send(self, band: Band, home: int, spec: JobSpec) -> None:
        shard = home
        if self.chance.random() < self.world.profile.misrouted:
            shard = self.chance.randrange(self.world.shards)
        within = self.chance.random() < self.world.profile.in_transaction
        self.link.up.send(partial(self._arrives_within if within else self._arrives, band, shard, spec))

    def _arrives(self, band: Band, shard: int, spec: JobSpec) -> None:
        self.world.ledger.submitted(spec.job_id, spec.run_at_ms)
        self._append(band, shard, spec.job_id.encode(), encode_job(spec))

    def _arrives_within(self, band: Band, shard: int, spec: JobSpec) -> None:
        """Submit within a transaction of the client's own: nobody can read it, nor what follows, before that ends."""
        broker, now_ms = self.world.broker, self.world.timeline.ms
        self._transactions += 1
        client = f"client-{self._transactions}"
        broker.begin_transaction(client, now_ms)
        offset = self._append(band, shard, spec.job_id.encode(), encode_job(spec))
        broker.add_pending(client, TOPIC_OF_BAND[band], shard, offset)
        lasts_ms = self.chance.choice((0, 300, 2_000, TRANSACTION_MAX_MS))
        self.world.timeline.after(lasts_ms, partial(self._end, client, spec))

    def _end(self, client: str, spec: JobSpec) -> None:
        commits = self.chance.random() < 0.8
        if commits:
            self.world.ledger.submitted(spec.job_id, spec.run_at_ms)
        self.world.broker.end_transaction(client, commit=commits, at_ms=self.world.timeline.ms)

    def _append(self, band: Band, shard: int, key: bytes, value: bytes) -> int:
        return self.world.broker.append(TOPIC_OF_BAND[band], shard, key, value, at_ms=self.world.timeline.ms)

    def spoil(self) -> None:
        """Publish what is no job."""
        self.rubbish += 1
        self._append(Band.DEFAULT, self.chance.randrange(self.world.shards), b"r", b"rubbish")

    def publish_poison(self) -> None:
        """Publish what ends the process of whoever takes it."""
        self.poison += 1
        self._append(Band.DEFAULT, self.chance.randrange(self.world.shards), b"p", POISON)

    def publish_bug(self) -> None:
        """Publish what meets a bug of ours."""
        self.bugs += 1
        self._append(Band.DEFAULT, self.chance.randrange(self.world.shards), b"b", BUG)

    def _spec(self) -> JobSpec:
        chance, now_ms = self.chance, self.world.timeline.ms
        self.submitted += 1
        fields: dict[str, Any] = {
            "priority": chance.randrange(10),
            "max_attempts": chance.randrange(1, 5),
            "timeout_ms": chance.choice((100, 20_000, 300_000, 300_000)),
            "backoff": Backoff(chance.choice((1, 1_000, 20_000)), 2.0, chance.choice((5_000, 200_000))),
        }
        if chance.random() < self.world.profile.delayed:
            fields["run_at_ms"] = now_ms + chance.choice((-5_000, 0, 500, 5_000, 40_000, 150_000))
        if chance.random() < 0.05:
            fields["expires_at_ms"] = now_ms + chance.choice((1, 5_000, 60_000))
        if chance.random() < 0.2:
            key = f"key-{self.submitted}"
            fields["idempotency_key"] = key
            job_id = keys.id_from_key("t", key)
        else:
            job_id = f"job-{self.submitted}"
        return JobSpec(
            job_id,
            "t" if "idempotency_key" in fields else chance.choice("tuv"),
            "q",
            "x.run",
            b"{}",
            **fields,
        )
