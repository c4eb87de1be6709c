"""Follows changelogs of shards that others own: the `Follower` of standbys."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message, TopicPartition

from scheduler.dispatcher.ports import Fenced, LogError, PositionLost, Restored
from scheduler.kafka import client_settings
from scheduler.kafka.consumer_events import failure_of
from scheduler.kafka.errors import PARTITION_END, POSITION_LOST
from scheduler.kafka.layout import CHANGELOG
from scheduler.kafka.names import Names
from scheduler.kafka.troubles import LOG, Troubles

_CHUNK: Final = 100
"""Messages taken at once: a millisecond or two of work where each is indexed."""

_NEAR: Final = 1_000
"""So few records behind counts as caught up: under load the end itself is never met."""


class _Followed:
    """One shard and what came of it in this poll."""

    __slots__ = ("at_ms", "entries", "moved", "near", "next")

    def __init__(self, offset: int) -> None:
        self.next = offset
        self.near = False
        self.clear()

    def clear(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.at_ms = 0
        self.moved = False


class KafkaFollower:
    """See `dispatcher.ports.Follower`. One read_committed consumer, which waits for many records or half a second."""

    def __init__(self, properties: Mapping[str, str], *, prefix: str = "jobs.", group: str = "") -> None:
        """Take librdkafka `properties`; `group` is that of the dispatchers, needed by the client alone."""
        self._settings = client_settings.standby(properties, group or f"{prefix}dispatcher")
        self._consumer = Troubles().consumer(self._settings)
        self._topic = Names(prefix).full(CHANGELOG)
        self._followed: dict[int, _Followed] = {}
        self._failures: list[LogError] = []  # of the last reads; each is raised, one a poll

    def follow(self, shard: int, offset: int) -> None:
        """Read a shard from `offset` on, or from the log's start with -1. Doesn't wait."""
        self.stop(shard)
        self._followed[shard] = _Followed(offset)
        self._consumer.incremental_assign([self._at(shard)])

    def poll(self) -> list[Restored]:
        """Return some of what came; never waits."""
        if self._failures:
            self._raise(self._failures.pop(0))
        for message in self._consumer.consume(_CHUNK, 0):
            # The client's stub allows None for messages made by hand.
            followed = self._followed.get(message.partition())  # type: ignore[arg-type]
            if followed is None:
                continue
            if message.error() is None:
                _take(followed, message)
            else:
                self._event(followed, message)
        return [self._slice(shard, each) for shard, each in self._followed.items() if each.moved]

    def lag(self, shard: int) -> int:
        """Return how many offsets a followed shard is behind, as far as the client has heard."""
        followed = self._followed.get(shard)
        if followed is None:
            return 0
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, shard), cached=True)
        except KafkaException:
            return 0  # it has heard nothing yet
        return max(0, high - max(followed.next, 0))

    def stop(self, shard: int) -> None:
        """Follow a shard no more."""
        if self._followed.pop(shard, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, shard)])

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _at(self, shard: int) -> TopicPartition:
        offset = self._followed[shard].next
        return TopicPartition(self._topic, shard, OFFSET_BEGINNING if offset < 0 else offset)

    def _slice(self, shard: int, followed: _Followed) -> Restored:
        done = followed.near or self.lag(shard) < _NEAR
        slice_ = Restored(shard, followed.entries, followed.next, done, followed.at_ms)
        followed.clear()
        return slice_

    def _event(self, followed: _Followed, message: Message) -> None:
        error = message.error()
        assert error is not None
        shard = message.partition()
        assert shard is not None
        if error.code() == PARTITION_END:
            followed.next = max(followed.next, message.offset() or 0)  # counts markers and aborted records
            followed.near = followed.moved = True
        elif error.code() in POSITION_LOST:
            self._failures.append(PositionLost(CHANGELOG, shard, followed.next, -1, -1))
            self.stop(shard)
        elif (failure := failure_of(error, "standbys")) is not None:
            self._failures.append(failure)

    def _raise(self, failure: LogError) -> None:
        """Raise what the last reads met; a dead consumer is replaced instead, and nobody need know."""
        if not isinstance(failure, Fenced):
            raise failure
        LOG.warning("the consumer of standbys is made anew: %s", failure)
        self._consumer.close()
        self._consumer = Troubles().consumer(self._settings)
        for followed in self._followed.values():
            followed.clear()
        if self._followed:
            self._consumer.incremental_assign([self._at(shard) for shard in self._followed])


def _take(followed: _Followed, message: Message) -> None:
    # A fetched record has an offset, and a timestamp of its append.
    followed.next = message.offset() + 1  # type: ignore[operator]
    followed.moved, followed.near = True, False
    followed.at_ms = message.timestamp()[1]
    key = message.key()
    if key is not None:  # a compacted topic takes none without; the type allows it
        followed.entries.append((key, message.value()))
