"""Job records for benches, published as fast as a client can."""

from collections.abc import Callable, Mapping

from confluent_kafka import Producer

from scheduler.codec.job import encode_job
from scheduler.core.keys import shard_of
from scheduler.core.spec import JobSpec

_PAYLOAD = b"x" * 200


class Load:
    """Publishes plain jobs of 200 bytes over ten tenants and four queues."""

    def __init__(
        self, properties: Mapping[str, str], prefix: str, shards: int, *, linger_ms: int = 5
    ) -> None:
        """Open a producer."""
        self._topic = f"{prefix}submit.default"
        self._shards = shards
        self._count = 0
        self._failed: list[str] = []
        self._producer = Producer(
            {
                **properties,
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def publish(self, jobs: int, run_at_ms: Callable[[int], int] = lambda _: 0) -> list[str]:
        """Publish `jobs` more, the n-th due at `run_at_ms(n)`; return their ids once Kafka has them all."""
        ids = [self._one(run_at_ms(n)) for n in range(jobs)]
        self._producer.flush(60)
        if self._failed or len(self._producer):
            raise RuntimeError(
                f"{len(self._failed) + len(self._producer)} jobs were not taken: {self._failed[:1]}"
            )
        return ids

    def one(self) -> str:
        """Publish one job at once and return its id; it is under way when this returns."""
        job_id = self._one(0)
        self._producer.poll(0)
        return job_id

    def close(self) -> None:
        """Take the last acknowledgements: a producer that waits for one outlives its broker, and complains."""
        self._producer.flush(10)

    def _one(self, run_at_ms: int) -> str:
        n = self._count
        self._count = n + 1
        job_id = f"bench-{n:010d}"
        spec = JobSpec(
            job_id, f"tenant-{n % 10}", f"queue-{n % 4}", "bench.noop", _PAYLOAD, run_at_ms=run_at_ms
        )
        partition = shard_of(job_id, self._shards)
        value, key = encode_job(spec), job_id.encode()
        self._producer.produce(self._topic, value, key, partition, on_delivery=self._delivered)
        if not n % 1_000:
            self._producer.poll(0)
        return job_id

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))
