"""Reads changelogs back: the `Changelog` of a take-over."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Message, TopicPartition

from scheduler.dispatcher.ports import Fenced, LogError, PositionLost, Restored
from scheduler.kafka import client_settings
from scheduler.kafka.acquaintance import acquaint
from scheduler.kafka.admin import Admin
from scheduler.kafka.consumer_events import failure_of
from scheduler.kafka.errors import PARTITION_END, POSITION_LOST
from scheduler.kafka.layout import CHANGELOG
from scheduler.kafka.names import Names
from scheduler.kafka.troubles import LOG, Troubles

_CHUNK: Final = 200
"""Messages handed over at once: a few milliseconds of work at most, where each is indexed."""

_ANSWER_S: Final = 1.0
"""How long the question where a changelog ends may hold the turn up; without an answer it is asked again."""


class _Restore:
    """One shard on its way to its end."""

    __slots__ = ("end", "entries", "held_back", "next", "shard")

    def __init__(self, shard: int, offset: int, end: int) -> None:
        self.shard = shard
        self.next = offset
        self.end = end
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.held_back = False


class KafkaChangelog:
    """See `dispatcher.ports.Changelog`. One read_committed consumer for all shards being restored.

    A restore is done when the client's end-of-partition event stands at or behind the end that was asked for with
    read-uncommitted. The event's offset counts what no record will ever show: commit markers, aborted batches,
    compacted holes. An event before the end means that an open transaction hides the rest (`held_back`).
    """

    def __init__(self, properties: Mapping[str, str], *, prefix: str = "jobs.", group: str = "") -> None:
        """Take librdkafka `properties`; `group` is that of the dispatchers, needed by the client alone."""
        self._settings = client_settings.restorer(properties, group or f"{prefix}dispatcher")
        self._consumer = Troubles().consumer(self._settings)
        self._admin = Admin(properties)
        self._topic = Names(prefix).full(CHANGELOG)
        self._restores: dict[int, _Restore] = {}
        self._assigned: set[int] = set()
        self._failures: list[LogError] = []  # of the last reads; each is raised, one a poll

    def begin(self, shard: int, offset: int) -> None:
        """Start to read a shard from `offset`, or from the log's start with -1, to its end as of now.

        Raises `ValueError` if `offset` lies before the log's start or beyond its end.
        """
        self.stop(shard)
        at = [TopicPartition(self._topic, shard)]
        end = self._admin.latest(at, _ANSWER_S)[0].offset
        start = self._admin.earliest(at, _ANSWER_S)[0].offset
        if offset == -1:
            offset = start
        if not start <= offset <= end:
            raise ValueError(f"{self._topic}/{shard}: offset {offset} is outside {start} to {end}")
        self._restores[shard] = _Restore(shard, offset, end)
        if offset < end:
            if not self._assigned:
                acquaint(self._consumer, self._topic)
            self._consumer.incremental_assign([TopicPartition(self._topic, shard, offset)])
            self._assigned.add(shard)

    def poll(self, wait_ms: int) -> list[Restored]:
        """Return some of what came. If nothing is there, wait for it at most `wait_ms`."""
        if self._failures:
            self._raise(self._failures.pop(0))
        done = [restore for restore in self._restores.values() if restore.next >= restore.end]
        if self._assigned and not done:
            self._take(self._messages(wait_ms), done)
        return self._slices(done)

    def _raise(self, failure: LogError) -> None:
        """Raise what the last reads met; a dead consumer is replaced instead, and nobody need know."""
        if not isinstance(failure, Fenced):
            raise failure
        LOG.warning("the consumer of changelogs is made anew: %s", failure)
        self._consumer.close()
        self._consumer = Troubles().consumer(self._settings)
        at = [TopicPartition(self._topic, shard, self._restores[shard].next) for shard in self._assigned]
        if at:
            self._consumer.incremental_assign(at)

    def held_back(self, shard: int) -> bool:
        """Say whether everything readable was read and an open transaction hides the rest."""
        restore = self._restores.get(shard)
        return restore is not None and restore.held_back

    def stop(self, shard: int) -> None:
        """Forget a shard."""
        self._restores.pop(shard, None)
        if shard in self._assigned:
            self._assigned.remove(shard)
            self._consumer.incremental_unassign([TopicPartition(self._topic, shard)])

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _messages(self, wait_ms: int) -> list[Message]:
        messages = self._consumer.consume(_CHUNK, 0)
        if messages or wait_ms == 0:
            return messages
        first = self._consumer.poll(wait_ms / 1000)
        return [] if first is None else [first, *self._consumer.consume(_CHUNK, 0)]

    def _take(self, messages: list[Message], done: list[_Restore]) -> None:
        restores = self._restores
        for message in messages:
            if message.error() is not None:
                self._event(message, done)
                continue
            # The client's stub allows None for messages made by hand; a fetched record has partition and offset.
            restore = restores.get(message.partition())  # type: ignore[arg-type]
            key = message.key()
            if restore is None:
                continue
            restore.next = message.offset() + 1  # type: ignore[operator]
            restore.held_back = False
            if key is not None:  # a compacted topic takes none without; the type allows it
                restore.entries.append((key, message.value()))

    def _event(self, message: Message, done: list[_Restore]) -> None:
        error = message.error()
        assert error is not None
        restore = self._restores.get(-1 if (partition := message.partition()) is None else partition)
        code = error.code()
        if code == PARTITION_END:
            if restore is not None:
                self._end_reached(restore, message.offset() or 0, done)
        elif code in POSITION_LOST:
            if restore is not None:
                self._failures.append(PositionLost(CHANGELOG, restore.shard, restore.next, -1, restore.end))
        elif (failure := failure_of(error, "changelog")) is not None:
            self._failures.append(failure)

    def _end_reached(self, restore: _Restore, offset: int, done: list[_Restore]) -> None:
        restore.next = max(restore.next, offset)
        restore.held_back = offset < restore.end
        if not restore.held_back and restore not in done:
            done.append(restore)

    def _slices(self, done: list[_Restore]) -> list[Restored]:
        slices = []
        for restore in list(self._restores.values()):
            finished = restore in done
            if restore.entries or finished:
                entries, restore.entries = restore.entries, []
                slices.append(Restored(restore.shard, entries, restore.next, finished))
            if finished:
                self.stop(restore.shard)
        return slices
