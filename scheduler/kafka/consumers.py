"""One consumer of the dispatcher: which partitions it reads, from where, and its messages as records.

librdkafka merges all partitions of a consumer into one queue, so each urgency class has a consumer of its own:
beside a saturated topic in the same consumer a quiet one waited 5.9 s, in its own 2 ms.
"""

from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Fenced, LogError, Polled, PositionLost, Record
from scheduler.kafka.acquaintance import acquaint
from scheduler.kafka.consumer_events import failure_of
from scheduler.kafka.epochs import UNKNOWN, Epochs
from scheduler.kafka.errors import PARTITION_END, POSITION_LOST, cut_to, describe
from scheduler.kafka.names import Names
from scheduler.kafka.troubles import LOG

_CHUNK: Final = 500
"""Messages taken from the client at once; nearly the speed of larger ones, and it bounds what is overshot."""

_NOTHING: Final = 1 << 62
_WAKE_S: Final = 0.5
"""A next offset that no record reaches: the input delivers nothing."""


class Cursor:
    """Where one input of one shard stands."""

    __slots__ = ("_epochs", "_rest", "before", "end", "gate", "input", "last", "paused", "shard")

    def __init__(self, source: Input, shard: int, offset: int, epoch: int = UNKNOWN) -> None:
        """Stand at `offset`, before which lies what was appended under a leader's `epoch`."""
        self.input = source
        self.shard = shard
        self.gate = offset  # records below are dropped; `_NOTHING` while the client is not where we want it
        self._rest = offset  # of the record wanted next meanwhile
        self.end = offset  # where the client last met the end; markers lie between that and the last record
        self.paused = False
        self.last: Message | None = None  # of those read since its epoch was asked for
        # The offset of the record before, while its epoch is still to be looked at; else -1.
        self.before = offset - 1 if epoch != UNKNOWN else -1
        self._epochs = Epochs(offset, epoch)

    @property
    def next(self) -> int:
        """The offset of the record wanted next."""
        return self._rest if self.gate == _NOTHING else self.gate

    def rest(self, offset: int) -> None:
        """Let nothing through; what is wanted next is at `offset`."""
        self._rest, self.gate = offset, _NOTHING

    def epoch_before(self, offset: int) -> int:
        """Return the leader's epoch of what was read just before `offset`, or `UNKNOWN`.

        The client is asked here, once for many records, and not where each of them is read.
        """
        if self.last is not None:
            self._epochs.read(self.last.offset(), self.last.leader_epoch())  # type: ignore[arg-type]  # it was fetched
            self.last = None
        return self._epochs.before(offset)


class Reader:
    """A consumer and its cursors. A record without a cursor, or below its gate, is dropped.

    The client discards what is prefetched when a partition is paused, sought or taken away; the gate holds even
    if it did not.
    """

    def __init__(
        self, consumer: Consumer, inputs: Mapping[str, Input], names: Names, *, by_hand: bool
    ) -> None:
        """Read `inputs` (by topic without prefix). `by_hand`: partitions are assigned here, not by a group."""
        self.consumer = consumer
        self._names = names
        self._topics = {source: names.full(topic) for topic, source in inputs.items()}
        self._cursors: dict[str, dict[int, Cursor]] = {topic: {} for topic in self._topics.values()}
        self._by_hand = by_hand
        self._pending: dict[tuple[str, int], int] = {}
        self._average_bytes = 1
        self.lost: list[PositionLost] = []
        self.failure: LogError | None = None

    # -- reading ---------------------------------------------------------------------------------------

    def take(self, records: int, size_bytes: int, into: Polled) -> tuple[int, int]:
        """Move what is waiting to `into`, at most `records`; return how many and their bytes.

        `size_bytes` bounds too, by the mean size seen so far, so it may be overshot by part of a chunk.
        """
        if self._pending:
            self._retry()
        taken = size = 0
        while taken < records and size < size_bytes:
            fitting = (size_bytes - size) // self._average_bytes + 1
            messages = self._fetched(min(_CHUNK, records - taken, fitting))
            if not messages:
                break
            size += self._convert(messages, into)
            taken += len(messages)
            self._average_bytes = max(1, size // taken)
        return taken, size

    def wait(self, seconds: float, records: int, into: Polled) -> None:
        """Wait so long, or until so many messages are there.

        One is not enough: the beats of many workers would make a turn each, and a turn costs much more than a beat.
        """
        self._convert(self._fetched(records, seconds), into)

    def _fetched(self, records: int, seconds: float = 0) -> list[Message]:
        try:
            return self.consumer.consume(records, seconds)
        except (KafkaException, RuntimeError) as broken:
            self._broken(broken)
            return []

    def _broken(self, error: Exception) -> None:
        """Give the consumer up: what it had in hand is gone, and it would go on behind that."""
        self.failure = Fenced(f"consumer: {error}")

    def _convert(self, messages: list[Message], into: Polled) -> int:
        """Append messages as records and return their bytes: the hot path, 0.4 µs a record."""
        cursors, append, size = self._cursors, into.records.append, 0
        for message in messages:
            if message.error() is not None:
                self._event(message, into)
                continue
            # The client's stub allows None for events and messages made by hand; a fetched record has them all.
            cursor = cursors[message.topic()].get(message.partition())  # type: ignore[index,arg-type]
            offset: int = message.offset()  # type: ignore[assignment]
            if cursor is None or offset < cursor.gate:
                if cursor is not None and offset == cursor.before:
                    self._compare(cursor, message)
                continue
            cursor.gate = offset + 1
            cursor.last = message
            size += len(message)
            append(
                Record(
                    cursor.input,
                    cursor.shard,
                    offset,
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                )
            )
        return size

    def _event(self, message: Message, into: Polled) -> None:
        error = message.error()
        assert error is not None
        cursor = self._cursors.get(message.topic() or "", {}).get(_partition(message))
        code = error.code()
        if cursor is not None and self._looked_in_vain(cursor, message, code):
            cursor.before = -1
            self._go(cursor, cursor.next)
        elif code == PARTITION_END:
            if cursor is not None and cursor.gate != _NOTHING:
                cursor.end = max(cursor.next, message.offset() or 0)
                into.ended.append((cursor.shard, cursor.input, cursor.end))
        elif code in POSITION_LOST:
            if cursor is not None and cursor.gate != _NOTHING:
                self._hold(cursor, describe(error), cut_to(error))
        else:
            self.failure = failure_of(error, "consumer") or self.failure

    def _compare(self, cursor: Cursor, message: Message) -> None:
        """Look at the record just before an input's first one: a later leader than was known is that of another log.

        The client asks a leader for that by itself, but only as it learns of it: of a topic's partitions that come one
        after the other at the first.
        """
        cursor.before = -1
        known, epoch = cursor.epoch_before(cursor.next), message.leader_epoch()
        if cursor.gate != _NOTHING and epoch is not None and UNKNOWN < known < epoch:
            self._hold(cursor, f"what lies before is of leader epoch {epoch}, and was of {known}", -1)

    @staticmethod
    def _looked_in_vain(cursor: Cursor, message: Message, code: int) -> bool:
        """Say whether there is no record before the first one any more: deleted, or the log ends there now."""
        if cursor.before < 0 or cursor.gate == _NOTHING:
            return False
        error, offset = message.error(), message.offset()
        assert error is not None
        gone = code in POSITION_LOST and cut_to(error) < 0
        ends = code == PARTITION_END and offset is not None and offset < cursor.next
        return gone or ends

    def _hold(self, cursor: Cursor, why: str, cut: int) -> None:
        topic = self._names.bare(self._topics[cursor.input])
        LOG.warning("%s/%d at %d: %s", topic, cursor.shard, cursor.next, why)
        cursor.rest(cursor.next)
        self.lost.append(PositionLost(topic, cursor.shard, cursor.next, -1, -1, cut=cut))

    # -- where to read ----------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Input]:
        """The inputs that this consumer reads."""
        return list(self._topics)

    def start(self, shard: int, source: Input, offset: int, epoch: int = UNKNOWN) -> None:
        """Deliver an input from `offset` on, whatever happened to it before; `epoch`: see `Cursor`."""
        topic = self._topics[source]
        known = shard in self._cursors[topic] or not self._by_hand
        first = self._by_hand and not self._cursors[topic]
        cursor = self._cursors[topic][shard] = Cursor(source, shard, offset, epoch)
        self._forget_lost(shard, source)
        self._go(cursor, offset, self._seek_or_assign if known else self._assign)
        if first:
            acquaint(self.consumer, topic)  # after that: it checks the epoch where it learns of a leader
        if known:
            self._wake(cursor)

    def stop(self, shard: int, source: Input) -> None:
        """Deliver no more of an input. A group's partition is paused, since it stays assigned."""
        topic = self._topics[source]
        self._pending.pop((topic, shard), None)
        self._forget_lost(shard, source)
        if self._cursors[topic].pop(shard, None) is None:
            return
        at = [TopicPartition(topic, shard)]
        try:
            if self._by_hand:
                self.consumer.incremental_unassign(at)
            else:
                self.consumer.pause(at)
        except KafkaException as refused:
            LOG.info(
                "stopping %s/%d: %s", topic, shard, refused
            )  # without a cursor nothing is delivered anyway

    def forget(self, shard: int) -> None:
        """Drop a partition that the group took away."""
        for source, topic in self._topics.items():
            self._cursors[topic].pop(shard, None)
            self._pending.pop((topic, shard), None)
            self._forget_lost(shard, source)

    def _forget_lost(self, shard: int, source: Input) -> None:
        topic = self._names.bare(self._topics[source])
        self.lost = [each for each in self.lost if (each.topic, each.partition) != (topic, shard)]

    def rewind(self, shard: int, source: Input, offset: int) -> None:
        """Deliver from `offset` again. An input that is not read any more stays as it is."""
        cursor = self._cursors[self._topics[source]].get(shard)
        if cursor is not None:
            self._go(cursor, offset)

    def pause(self, shard: int, source: Input) -> None:
        """Deliver nothing of an input until `resume`."""
        topic = self._topics[source]
        cursor = self._cursors[topic].get(shard)
        if cursor is not None:
            cursor.paused = True
            self._go(cursor, cursor.next, self._nowhere)

    def resume(self, shard: int, source: Input, offset: int) -> None:
        """Deliver a paused input again, from `offset`."""
        cursor = self._cursors[self._topics[source]].get(shard)
        if cursor is not None:
            cursor.paused = False
            self._go(cursor, offset)
            self._wake(cursor)

    def epoch_before(self, shard: int, source: Input, offset: int) -> int:
        """Return the leader's epoch of what was read just before `offset` of an input, or `UNKNOWN`."""
        cursor = self._cursors[self._topics[source]].get(shard)
        return UNKNOWN if cursor is None else cursor.epoch_before(offset)

    def reached(self) -> dict[tuple[str, int], int]:
        """Return up to which offset each input was read, by topic and shard; without those that are paused or held."""
        return {
            (topic, cursor.shard): max(cursor.next, cursor.end)
            for topic, cursors in self._cursors.items()
            for cursor in cursors.values()
            if cursor.gate != _NOTHING
        }

    def take_up(self, place: tuple[str, int]) -> None:
        """Have the client begin anew with an input that brings nothing."""
        topic, shard = place
        cursor = self._cursors[topic].get(shard)
        if cursor is not None:
            self._go(cursor, cursor.next, self._assign_anew)

    def _wake(self, resumed: Cursor) -> None:
        """Have the client look at a resumed partition now.

        Its broker thread sleeps for up to a second while all its partitions are paused, and a resume does not
        wake it; a question to the leader does (measured: first record after 1 ms, not after 500 to 1,000). While
        others are read the thread is awake, and the question would only wait behind their fetch.
        """
        cursors = (cursor for known in self._cursors.values() for cursor in known.values())
        if any(cursor.gate != _NOTHING for cursor in cursors if cursor is not resumed):
            return
        topic = self._topics[resumed.input]
        try:
            self.consumer.get_watermark_offsets(TopicPartition(topic, resumed.shard), timeout=_WAKE_S)
        except KafkaException as refused:
            LOG.info("waking %s/%d: %s", topic, resumed.shard, refused)

    def _go(self, cursor: Cursor, offset: int, move: Callable[[TopicPartition], None] | None = None) -> None:
        """Go to `offset`, or try again before the next read; nothing of the input is delivered until it worked.

        Were a failure dropped, the client would go on behind `offset`, and the records between would be lost.
        It fails while the group is taking the partition from us, which no callback has told yet.

        With the epoch of what lies before it, the client asks a leader as it learns of it whether that holds this, and
        reads nothing until it says so: a millisecond, and no more than the fetch would have waited for anyway. A
        leader that it has known for longer is not asked (librdkafka 2.16); so it begins one record earlier, whose
        epoch is looked at (`_compare`).
        """
        epoch = cursor.epoch_before(offset)
        if cursor.before != offset - 1:
            cursor.before = -1
        at = offset if cursor.before < 0 else cursor.before
        to = TopicPartition(self._topics[cursor.input], cursor.shard, at, leader_epoch=epoch)
        cursor.rest(offset)
        try:
            (move or self._seek_or_assign)(to)
            if cursor.paused:
                self.consumer.pause([to])
            else:
                self.consumer.resume([to])  # always: a pause may survive a new assignment
        except KafkaException as refused:
            LOG.info("going to %s refused, to be tried again: %s", to, refused)
            self._pending[to.topic, to.partition] = offset
            return
        self._pending.pop((to.topic, to.partition), None)
        if not cursor.paused:
            cursor.gate = offset

    def _seek_or_assign(self, to: TopicPartition) -> None:
        """Seek; where the client refuses (`_STATE` after a lost position), take the partition up anew."""
        try:
            self.consumer.seek(to)
        except KafkaException as refused:
            LOG.info("seek to %s refused, assigning anew: %s", to, refused)
            self._assign_anew(to)

    def _assign_anew(self, to: TopicPartition) -> None:
        self.consumer.incremental_unassign([to])
        self.consumer.incremental_assign([to])

    def _assign(self, to: TopicPartition) -> None:
        self.consumer.incremental_assign([to])

    def _nowhere(self, to: TopicPartition) -> None:
        """Stay where the client is: nobody hears of it until `resume` says from where."""

    def _retry(self) -> None:
        for (topic, shard), offset in list(self._pending.items()):
            cursor = self._cursors[topic].get(shard)
            if cursor is not None:
                self._go(cursor, offset)


def _partition(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else partition
