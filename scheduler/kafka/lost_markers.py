"""Ends transactions that are over for their coordinator, and open for ever in some of their partitions.

A coordinator that completes a transaction while a partition of it has no leader takes that partition for deleted and
leaves its marker out (Kafka 4, KAFKA-20734). Then its records stay undecided, and with them everything behind: readers
of committed records wait there. It takes a partition all of whose replicas in sync are away, so above all a single
copy whose broker was killed.

The producer id outlives the transactions of its transactional id. So the next transaction of that id that takes in such
a partition ends what is open there, in whatever way it ends itself; it must be the way that the coordinator had
decided. Hence this comes before anything else is done under that id.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, Message, Producer, TopicPartition

from scheduler.core.inputs import RETRIES, TOPIC_OF, Input
from scheduler.dispatcher.ports import BY_KEY, LogError
from scheduler.kafka import client_settings
from scheduler.kafka.admin import Admin
from scheduler.kafka.coordinator_log import Ended, ended_transactions
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import describe, error_of
from scheduler.kafka.layout import CHANGELOG
from scheduler.kafka.names import Names
from scheduler.kafka.stable_ends import End, StableEnds
from scheduler.kafka.told_offsets import Place
from scheduler.kafka.troubles import LOG, Troubles

WRITTEN: Final = (CHANGELOG, "dlq", "lifecycle", *(TOPIC_OF[each] for each in (Input.COMMANDS, *RETRIES)))
"""Our topics that transactions write to."""

EVERYWHERE: Final = frozenset((topic, BY_KEY) for topic in WRITTEN)

_ANSWER_S: Final = 5.0
_LOOK_S: Final = 0.02
_MARKERS_S: Final = 1.0
"""Markers of a transaction that has just been ended are written by then."""

_OVER_S: Final = 30.0
"""No transaction of ours stays open for so long: its time-out is 10 s, and the coordinator looks each 10 s.

Whose an undecided record is can't be asked. Before that time it may be somebody's at work in the same partition, and
committing it for them would publish what they are about to abort.
"""

_CLOCKS_MS: Final = 1_000
"""So much may the clocks of two brokers differ."""


class Lost(NamedTuple):
    """Where a transaction that is over for its coordinator is open still: its first record there, and how it ended."""

    first: Message
    stable: int
    committed: bool


class Seen(NamedTuple):
    """Where a partition stands still, and from when on nobody's transaction can be at work there any more."""

    stable: int
    over: Deadline


class LostMarkers:
    """Looks for such partitions and ends what is open there."""

    def __init__(self, properties: Mapping[str, str], group: str, names: Names, admin: Admin) -> None:
        """Ask `admin`; read as `group`."""
        self._properties = properties
        self._group = group
        self._names = names
        self._admin = admin
        self._seen: dict[str, dict[Place, Seen]] = {}  # by owner

    def end_own(self, producer: Producer, owner: str, wrote: AbstractSet[tuple[str, int]]) -> None:
        """End what `owner` left so, whose id `producer` has, initialised and with nothing open. Waits for it.

        Nothing else may be done under that id before. `wrote`: the topics, without prefix, and partitions that may be
        concerned; BY_KEY: any of that topic. Raises `LogError` if that could not be done just now.
        """
        lost = self._find(owner, wrote)
        unmoved = self._unmoved({place: each.stable for place, each in lost.items()}, _OVER_S)
        _end(producer, owner, {place: lost[place] for place in unmoved})

    def end_of_dead(self, producer: Callable[[], Producer], owner: str) -> None:
        """End what a dead owner left so. Raises `LogError` while it is too early: come again, nothing waits for it here.

        The producer is asked for at the end. When the shards of a dead owner go to several others, each of them takes
        its id; were it taken before it is time, they would fence one another again and again.
        """
        lost = self._find(owner, EVERYWHERE)
        known = self._seen.pop(owner, {})
        if not lost:
            return
        seen = {place: _seen(each.stable, known.get(place)) for place, each in lost.items()}
        if not all(each.over.passed for each in seen.values()):
            self._seen[owner] = seen
            raise LogError(f"{_told(lost)}: too early to tell a lost marker from a transaction at work")
        # Another successor may have been at it while we looked.
        left = self._standing({place: each.stable for place, each in lost.items()}, Deadline(_ANSWER_S))
        if left:
            _end(producer(), owner, {place: lost[place] for place in left})

    def _find(self, owner: str, wrote: AbstractSet[tuple[str, int]]) -> dict[Place, Lost]:
        hidden = self._unmoved(self._hidden(wrote), _MARKERS_S)
        firsts = self._first_records(hidden) if hidden else {}
        if not firsts:
            return {}  # ended meanwhile: transactions of others, at work, and markers that were still under way
        decided = _decided(self._ended(owner, firsts), firsts)
        return {place: Lost(firsts[place], hidden[place], committed) for place, committed in decided.items()}

    def _ended(self, owner: str, firsts: Mapping[Place, Message]) -> list[Ended]:
        since_ms = min(_appended_ms(message) for message in firsts.values()) - _CLOCKS_MS
        try:
            return ended_transactions(self._properties, self._group, owner, since_ms)
        except LogError as error:
            LOG.warning("whether %s left transactions open can't be told: %s", owner, error)
            return []

    def _unmoved(self, hidden: Mapping[Place, int], seconds: float) -> dict[Place, int]:
        """Return where the same transaction is still open after so long; as soon as that is known to be nowhere."""
        left, until = dict(hidden), Deadline(seconds)
        while left and not until.passed:
            time.sleep(_LOOK_S)
            left = self._standing(left, until)
        return left

    def _standing(self, hidden: Mapping[Place, int], deadline: Deadline) -> dict[Place, int]:
        """Return where the same transaction is open, as far as the leaders answer."""
        ends = self._ends(hidden, deadline)
        moved = {at for at, end in ends.items() if end.stable != hidden[at] or end.stable == end.high}
        return {place: stable for place, stable in hidden.items() if place not in moved}

    def _hidden(self, wrote: AbstractSet[tuple[str, int]]) -> dict[Place, int]:
        """Return where open transactions begin. Raises `LogError` if a partition has no leader now: who knows."""
        counts = self._admin.partitions(self._names.prefix, _ANSWER_S)
        left = {
            (self._names.full(topic), number)
            for topic in WRITTEN
            for number in range(counts.get(topic, 0))
            if (topic, number) in wrote or (topic, BY_KEY) in wrote
        }
        hidden: dict[Place, int] = {}
        deadline = Deadline(_ANSWER_S)
        while left:
            ends = self._ends(left, deadline)
            hidden |= {place: end.stable for place, end in ends.items() if end.stable < end.high}
            left -= ends.keys()
            if left and deadline.passed:
                raise LogError(f"where {', '.join(topic for topic, _ in sorted(left)[:3])} end is not told")
        return hidden

    def _ends(self, places: Collection[Place], deadline: Deadline) -> dict[Place, End]:
        """Ask once. A broker that has just begun to lead may not answer yet."""
        ends = StableEnds(self._admin.client)
        ends.ask(places)
        while (found := ends.answer()) is None:
            if deadline.passed:
                return {}
            time.sleep(_LOOK_S)
        return found

    def _first_records(self, hidden: Mapping[Place, int]) -> dict[Place, Message]:
        """Return the first undecided record of each partition."""
        consumer = Troubles().consumer(client_settings.onlooker(self._properties, self._group))
        found: dict[Place, Message] = {}
        try:
            consumer.assign([TopicPartition(*place, offset) for place, offset in hidden.items()])
            deadline = Deadline(_ANSWER_S)
            seen: set[Place] = set()  # a record, or the end: behind a marker there may be nothing
            while len(seen) < len(hidden) and not deadline.passed:
                for message in consumer.consume(len(hidden), deadline.slice_s()):
                    place = (message.topic() or "", message.partition() or 0)
                    seen.add(place)
                    if message.error() is None and message.offset() == hidden[place]:
                        found[place] = message
        finally:
            consumer.close()
        return found


def _seen(stable: int, before: Seen | None) -> Seen:
    return before if before is not None and before.stable == stable else Seen(stable, Deadline(_OVER_S))


def _decided(ended: list[Ended], firsts: Mapping[Place, Message]) -> dict[Place, bool]:
    """Return whether the transactions that records belong to were committed, as far as they are among those ended."""
    found: dict[Place, bool] = {}
    for place, message in firsts.items():
        # The last one in that partition: each one before it was ended by it, if by nothing else.
        last = next((each for each in reversed(ended) if place in each.places), None)
        if last and last.start_ms - _CLOCKS_MS <= _appended_ms(message) <= last.at_ms + _CLOCKS_MS:
            found[place] = last.committed
    return found


def _end(producer: Producer, owner: str, lost: Mapping[Place, Lost]) -> None:
    for committed in (False, True):
        again = {place: each.first for place, each in lost.items() if each.committed is committed}
        if again:
            _finish(producer, again.values(), committed=committed)
            how = "committed" if committed else "aborted"
            LOG.warning("%s a transaction of %s again in %s", how, owner, _told(again))


def _told(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic}/{number}" for topic, number in sorted(places))


def _finish(producer: Producer, firsts: Iterable[Message], *, committed: bool) -> None:
    """Run a transaction with the first record of each partition once more, and end it so.

    A partition becomes part of a transaction with a record only. The same one once more changes nothing in a changelog,
    a command or a retry that comes twice does no harm, and what is aborted nobody sees; `lifecycle` and `dlq` may show
    it twice.
    """
    try:
        producer.begin_transaction()
        for first in firsts:
            place = first.topic() or "", first.partition() or 0
            # The stub takes headers for what may be missing: with none they are an empty list.
            producer.produce(place[0], first.value(), first.key(), place[1], headers=first.headers() or [])
        producer.flush(_ANSWER_S)
        (producer.commit_transaction if committed else producer.abort_transaction)(_ANSWER_S)
    except KafkaException as raised:
        error = error_of(raised)
        raise LogError(f"ending lost transactions: {describe(error) if error else raised}") from raised


def _appended_ms(message: Message) -> int:
    return message.timestamp()[1]
