"""The librdkafka properties of each client of a dispatcher. Pure.

Three layers: defaults measured to be good (docs/DESIGN.md), the operator's properties on top, and what
correctness rests on above those: nobody can switch off idempotence or turn on auto-commit.
"""

from collections.abc import Mapping
from typing import Final

Properties = dict[str, str | int | bool]

RECORD_MAX_BYTES: Final = 2_000_000
"""The largest record that our producers send; topics that hold whole jobs take 2 MiB (see `layout`)."""

TRANSACTION_TIMEOUT_MS: Final = 10_000
"""A dead owner's open transaction holds its partitions back for this long, plus the broker's 10 s check period."""

SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
"""A member hears of a rebalance in the answer to a heartbeat: shards of one that has left wait for that too."""

_CONSUMER_ONLY: Final = frozenset((
    "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "client.rack", "enable.auto.commit",
    "enable.auto.offset.store", "enable.partition.eof", "fetch.error.backoff.ms", "fetch.max.bytes",
    "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.id",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "isolation.level",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "partition.assignment.strategy",
    "queued.max.messages.kbytes", "queued.min.messages", "session.timeout.ms",
))  # fmt: skip
_PRODUCER_ONLY: Final = frozenset((
    "acks", "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type",
    "delivery.report.only.error", "delivery.timeout.ms", "enable.gapless.guarantee", "enable.idempotence",
    "linger.ms", "message.send.max.retries", "message.timeout.ms", "partitioner", "queue.buffering.max.kbytes",
    "queue.buffering.max.messages", "queue.buffering.max.ms", "request.required.acks", "request.timeout.ms",
    "retries", "sticky.partitioning.linger.ms", "transaction.timeout.ms", "transactional.id",
))  # fmt: skip

_CONSUMER_DEFAULTS: Final[Properties] = {
    "fetch.wait.max.ms": 20,  # bounds how long seek, resume and new assignments wait; delays no arriving record
    "fetch.queue.backoff.ms": 10,  # the default of 1000 makes a fast reader sleep
    "fetch.max.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 16 * 1024,
    "reconnect.backoff.max.ms": 1_000,
}
_CONSUMER_FIXED: Final[Properties] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_DRIVER_DEFAULTS: Final[Properties] = {
    **_CONSUMER_DEFAULTS,
    # Offers and beats come in a trickle of thousands a second, and each answer to a fetch costs more than ten records
    # of it. So the broker gathers 1 KiB first, unless 8 ms have passed. Nobody's start waits for that.
    "fetch.min.bytes": 1024,
    "fetch.wait.max.ms": 8,
}
_CLASSIC_DEFAULTS: Final[Properties] = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}
_CLASSIC_FIXED: Final[Properties] = {
    # Range takes everything away at each change; cooperative is what `membership` and `consumers` rely on.
    "partition.assignment.strategy": "cooperative-sticky",
}
_PRODUCER_DEFAULTS: Final[Properties] = {
    "compression.type": "lz4",
    "linger.ms": 0,
    "retry.backoff.ms": 2,  # else back-to-back transactions wait 100 ms for the markers of the last one
    "reconnect.backoff.max.ms": 1_000,
}
_PRODUCER_FIXED: Final[Properties] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "message.max.bytes": RECORD_MAX_BYTES,
}


def driver(properties: Mapping[str, str], group: str) -> Properties:
    """Return the settings of the consumer that is a member of `group`."""
    mine = _without(properties, _PRODUCER_ONLY)
    fixed: Properties = {"isolation.level": "read_uncommitted", "group.id": group}
    if mine.get("group.protocol") == "consumer":
        return {**_DRIVER_DEFAULTS, **mine, **_CONSUMER_FIXED, **fixed}
    return {**_DRIVER_DEFAULTS, **_CLASSIC_DEFAULTS, **mine, **_CONSUMER_FIXED, **_CLASSIC_FIXED, **fixed}


def follower(properties: Mapping[str, str], group: str) -> Properties:
    """Return the settings of a consumer that is assigned by hand, with only committed records."""
    mine = _without(properties, _PRODUCER_ONLY | _MEMBERSHIP)
    return {
        **_CONSUMER_DEFAULTS,
        **mine,
        **_CONSUMER_FIXED,
        "isolation.level": "read_committed",
        "group.id": group,
    }


def onlooker(properties: Mapping[str, str], group: str) -> Properties:
    """Return the settings of a consumer that is assigned by hand and reads what is undecided too."""
    return {**follower(properties, group), "isolation.level": "read_uncommitted"}


def restorer(properties: Mapping[str, str], group: str) -> Properties:
    """Return the settings of the consumer that reads changelogs back."""
    return {**follower(properties, group), "queued.max.messages.kbytes": 32 * 1024}


def standby(properties: Mapping[str, str], group: str) -> Properties:
    """Return the settings of the consumer that follows others' changelogs.

    Nobody waits for what it reads, so the broker may: an answer for half a second or 64 KiB, not for each turn.
    """
    patient = {"fetch.wait.max.ms": "500", "fetch.min.bytes": str(64 * 1024)}
    return follower({**patient, **properties}, group)


def transactional(properties: Mapping[str, str], transactional_id: str) -> Properties:
    """Return the settings of the transactional producer."""
    timeout: Properties = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
    return {**timeout, **_producer(properties), "transactional.id": transactional_id}


def plain(properties: Mapping[str, str]) -> Properties:
    """Return the settings of the producer of leases, notices and echoes.

    A lease that arrives later than its first period starts nothing, so it is not tried for longer than that.
    """
    only_failures: Properties = {"delivery.report.only.error": True}
    return {"message.timeout.ms": 10_000, **_producer(properties), **only_failures}


def idempotent(properties: Mapping[str, str]) -> Properties:
    """Return the settings of any other producer of ours."""
    return _producer(properties)


def admin(properties: Mapping[str, str]) -> Properties:
    """Return the settings of an admin client."""
    return dict(_without(properties, _PRODUCER_ONLY | _CONSUMER_ONLY))


_MEMBERSHIP: Final = frozenset((
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
    "max.poll.interval.ms", "partition.assignment.strategy", "session.timeout.ms",
))  # fmt: skip
"""What only a group member has; a follower must not claim the same static membership."""


def _producer(properties: Mapping[str, str]) -> Properties:
    mine = _without(properties, _CONSUMER_ONLY | {"transactional.id"})
    return {**_PRODUCER_DEFAULTS, **mine, **_PRODUCER_FIXED}


def _without(properties: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in names}
