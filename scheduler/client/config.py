"""What a client is made with, and the librdkafka properties that follow from it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scheduler.core import bounds
from scheduler.kafka.connection import connection_from

Properties = dict[str, str | int | bool]

BOOTSTRAP: Final = "bootstrap.servers"
DEFAULT_PREFIX: Final = "jobs."


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach Kafka and how long to try.

    `properties` are librdkafka's names. `prefix` begins each topic name. `timeout_s` bounds the wait for a broker,
    for room in the local queue, and for the acknowledgement, each. The local queue is bounded in records and KiB.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    prefix: str = DEFAULT_PREFIX
    timeout_s: float = 10.0
    queue_records: int = 50_000
    queue_kib: int = 64 * 1024

    @property
    def bootstrap(self) -> str:
        """The broker addresses, for messages."""
        return self.properties[BOOTSTRAP]


def config_from(
    environ: Mapping[str, str] = os.environ,
    connection: Mapping[str, str] | None = None,
    prefix: str | None = None,
) -> ClientConfig:
    """Return the configuration that the environment gives (`KAFKA_*`, `JOBS_PREFIX`) under what the caller gives.

    Raises `ValueError` for a property that a receipt's meaning rests on.
    """
    overrides = dict(connection or {})
    for name in sorted(overrides.keys() & _OURS):
        raise ValueError(f"{name} can't be changed: that a receipt means 'Kafka has it' rests on it")
    return ClientConfig(
        properties=connection_from(environ, overrides),
        prefix=prefix if prefix is not None else environ.get("JOBS_PREFIX") or DEFAULT_PREFIX,
    )


class Pace(StrEnum):
    """What a producer is tuned for."""

    PROMPT = "prompt"  # one job, whose submitter waits
    BULK = "bulk"  # a stream of jobs


_TUNED: Final[dict[Pace, Properties]] = {
    Pace.PROMPT: {"linger.ms": 0},
    Pace.BULK: {"linger.ms": 20},
}
_DEFAULTS: Final[Properties] = {
    "compression.type": "lz4",
    # A batch above the topic's max.message.bytes is refused whole, and topics may be set well below the usual 1 MiB.
    "batch.size": 256 * bounds.KIB,
    "reconnect.backoff.max.ms": 1_000,
    "retry.backoff.ms": 20,
}
_FIXED: Final[Properties] = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.report.only.error": False,
    "message.max.bytes": 2_000_000,  # payloads are bounded far below; the topic's own limit decides
}
_OURS: Final = frozenset(_FIXED) | {
    "queue.buffering.max.messages", "queue.buffering.max.kbytes", "message.timeout.ms", "delivery.timeout.ms",
    "request.required.acks", "transactional.id",
}  # fmt: skip


def producer_properties(config: ClientConfig, pace: Pace) -> Properties:
    """Return the properties of the producer for `pace`."""
    given = {name: value for name, value in config.properties.items() if name not in _OURS}
    return {
        **_DEFAULTS,
        **given,
        **_TUNED[pace],
        **_FIXED,
        "message.timeout.ms": int(config.timeout_s * bounds.SECOND_MS),
        "queue.buffering.max.messages": config.queue_records,
        "queue.buffering.max.kbytes": config.queue_kib,
    }
