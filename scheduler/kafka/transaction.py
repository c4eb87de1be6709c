"""The transactional producer: one transaction at a time, errors turned into what the caller must do."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from scheduler.dispatcher.ports import Fenced, LogError, MustAbort, OutcomeUnknown, Outgoing, TopicStuck
from scheduler.kafka.client_settings import TRANSACTION_TIMEOUT_MS, Properties
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import (
    DESTINATION_AT_FAULT,
    RECORD_AT_FAULT,
    TIMED_OUT,
    Verdict,
    describe,
    error_of,
    judge,
)
from scheduler.kafka.layout import CHANGELOG
from scheduler.kafka.lost_markers import EVERYWHERE, LostMarkers
from scheduler.kafka.names import Names
from scheduler.kafka.patience import Stuck, within
from scheduler.kafka.troubles import Troubles

INIT_S: Final = 30.0
CALL_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 5.0
"""How long one step is tried; after the transaction timeout the coordinator has aborted it anyway."""

STUCK_S: Final = 5.0
"""A call that is overdue by so much will not return."""

_ROOM_S: Final = 10.0
_KNOWN_S: Final = 10.0  # how long an answer counts about which topics of users there are
_UNKNOWN_S: Final = 1.0  # and for a topic that was not among them
_ASK_S: Final = 1.0


class TransactionalProducer:
    """One producer with one transactional id.

    Order: `begin`, `produce_changelog`* and `produce`*, `flush`, `send_offsets`, `commit`; `abort` ends a failed one. `flush` comes
    before `send_offsets` always: the other way round back-to-back transactions take 98 ms instead of 3-6.
    """

    def __init__(self, settings: Properties, names: Names, troubles: Troubles) -> None:
        """Take the settings; nothing is sent before `open`."""
        self._settings = settings
        self._names = names
        self._troubles = troubles
        self._producer: Producer | None = None
        self._reports: list[tuple[KafkaError | None, Message]] = []
        self._logged: set[int] = set()  # shards whose changelog is part of the transaction
        self._wrote: set[tuple[str, int]] = set()  # our topics and partitions in the last transaction
        self._foreign: set[str] = set()
        self._topics: frozenset[str] | None = None  # that exist, as of `_asked_s`; None: no answer
        self._asked_s = float("-inf")
        self._flushed = False
        self.in_transaction = False

    def open(self) -> None:
        """Make the producer, also anew: whatever is open under its id is resolved when this returns.

        Raises `Fenced` if somebody else took the id meanwhile, `LogError` if no coordinator answered in time.
        """
        self._discard()
        producer = self._troubles.producer(self._settings)
        deadline = Deadline(INIT_S)
        while True:
            try:
                producer.init_transactions(deadline.slice_s())
                break
            except KafkaException as raised:
                error = _error(raised)
                if judge(error) is Verdict.UNUSABLE:
                    raise Fenced(f"init_transactions: {describe(error)}") from raised
                if judge(error) is not Verdict.RETRY or deadline.passed:
                    text = f"init_transactions: {describe(error)}{self._troubles.why()}"
                    raise LogError(text) from raised
        self._producer = producer
        self._wrote = set(EVERYWHERE)
        self._asked_s = float("-inf")

    def end_lost(self, lost: LostMarkers) -> None:
        """End what this id left open in partitions that its coordinator has lost sight of.

        Right after `abort` that can only be where the aborted transaction wrote; right after `open`, anywhere.
        """
        lost.end_own(self._live(), str(self._settings["transactional.id"]), self._wrote)

    def begin(self) -> None:
        """Begin a transaction."""
        self._reports = []
        self._logged = set()
        self._wrote = set()
        self._foreign = set()
        self._flushed = False
        self._call("begin_transaction", lambda _: self._live().begin_transaction(), Fenced, Fenced)
        self.in_transaction = True

    def produce_changelog(self, shard: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Add all that a shard's changelog gets. Only the last record asks for a delivery report, for its offset.

        These are most of all records, hence the short way; what does not go that way goes the long one, in its turn.
        """
        assert self.in_transaction
        assert not self._flushed
        assert entries
        assert shard not in self._logged
        self._logged.add(shard)
        self._wrote.add((CHANGELOG, shard))
        topic, produce = self._names.full(CHANGELOG), self._live().produce
        for key, value in entries[:-1]:
            try:
                produce(topic, value, key, shard)
            except (BufferError, KafkaException):
                self._send(Outgoing(CHANGELOG, shard, key, value), reported=False)
        self._send(Outgoing(CHANGELOG, shard, *entries[-1]), reported=True)

    def produce(self, records: Iterable[Outgoing]) -> None:
        """Add records of other topics. One that the client refuses by itself (too large) raises `MustAbort`."""
        assert self.in_transaction
        assert not self._flushed
        for record in records:
            if record.foreign:
                self._foreign.add(record.topic)
                self._require(record)
            else:
                self._wrote.add((record.topic, record.partition))
            self._send(
                record, reported=record.foreign
            )  # the user's own topic: a refusal must name the record

    def flush(self) -> dict[int, int]:
        """Send everything; return the last changelog offset by shard. Raises `MustAbort` if any record failed."""
        assert self.in_transaction
        assert not self._flushed
        self._drain()
        self._raise_refusals()
        self._flushed = True
        return self._changelog_offsets()

    def send_offsets(self, offsets: list[TopicPartition], metadata: object) -> None:
        """Add the group offsets, under the metadata taken after the poll.

        The client forgets its time-out here while the group's coordinator is away, and after that had come back it was
        seen to wait on for ever (librdkafka issue 5456). So nobody waits for it longer than it should take; the
        transaction can't have committed, and its producer is given up.
        """
        assert self._flushed
        producer = self._live()
        try:
            within(CALL_S + STUCK_S, lambda: self._send_offsets(producer, offsets, metadata))
        except Stuck:
            raise Fenced(f"send_offsets_to_transaction does not return{self._troubles.why()}") from None

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition], metadata: object) -> None:
        self._call(
            "send_offsets_to_transaction",
            lambda slice_s: producer.send_offsets_to_transaction(offsets, metadata, slice_s),
            MustAbort,
            MustAbort,
        )

    def commit(self) -> None:
        """Commit. Only `OutcomeUnknown` and `Fenced` leave open whether it happened."""
        assert self._flushed
        self._call(
            "commit_transaction",
            lambda slice_s: self._live().commit_transaction(slice_s),
            OutcomeUnknown,
            OutcomeUnknown,
        )
        self.in_transaction = False

    def abort(self) -> None:
        """Abort. Raises `Fenced` when the producer can't even do that any more: it has to be opened anew."""
        try:
            self._call(
                "abort_transaction", lambda slice_s: self._live().abort_transaction(slice_s), Fenced, Fenced
            )
        finally:
            self.in_transaction = False

    def close(self) -> None:
        """Abort what is open, as far as that works at once, and drop the producer."""
        if self._producer is not None and self.in_transaction:
            try:
                self._producer.abort_transaction(1.0)
            except KafkaException:
                pass  # the coordinator does it after the transaction timeout
        self._discard()

    def _live(self) -> Producer:
        if self._producer is None:
            raise Fenced("the producer is closed")
        return self._producer

    def _discard(self) -> None:
        producer, self._producer = self._producer, None
        self.in_transaction = False
        if producer is not None:
            producer.purge(blocking=False)

    def _require(self, record: Outgoing) -> None:
        """Refuse a record for a topic of a user's that does not exist.

        The client would keep it until the transaction has timed out, and then blame nobody: the turn would come again.
        """
        known = self._topics is not None and record.topic in self._topics
        if time.monotonic() - self._asked_s >= (_KNOWN_S if known else _UNKNOWN_S):
            self._asked_s = time.monotonic()
            try:
                self._topics = frozenset(self._live().list_topics(timeout=_ASK_S).topics)
            except KafkaException:
                self._topics = None  # what sends will say what is wrong
        if self._topics is not None and record.topic not in self._topics:
            raise MustAbort(
                f"produce to {record.topic}: there is no such topic", topic=record.topic, key=record.key
            )

    def _send(self, record: Outgoing, *, reported: bool) -> None:
        deadline: Deadline | None = None
        while True:
            try:
                self._produce(record, reported=reported)
                return
            except BufferError:
                deadline = deadline or Deadline(_ROOM_S)
                self._make_room(deadline)
            except KafkaException as raised:
                refused = self._refused(_error(raised), record.topic, record.key, foreign=record.foreign)
                raise refused from raised

    def _produce(self, record: Outgoing, *, reported: bool) -> None:
        topic = record.topic if record.foreign else self._names.full(record.topic)
        if not (reported or record.headers):  # most records, several of each job
            self._live().produce(topic, record.value, record.key, record.partition)
            return
        optional: dict[str, object] = {}
        if record.headers:
            optional["headers"] = list(record.headers)
        if reported:
            optional["on_delivery"] = self._store
        # The stub types each optional argument by itself; a dict of them can't be.
        self._live().produce(topic, record.value, record.key, record.partition, **optional)  # type: ignore[arg-type]

    def _store(self, error: KafkaError | None, message: Message) -> None:
        """Keep a delivery report and do nothing else.

        Inside `flush` of a fenced producer its exception is already pending; calling even `error.name()` there
        ends in `SystemError` and cuts the list of reports short.
        """
        self._reports.append((error, message))

    def _make_room(self, deadline: Deadline) -> None:
        if deadline.passed:
            raise MustAbort(f"the local queue stayed full for {_ROOM_S:.0f} s{self._troubles.why()}")
        self._live().poll(0.05)

    def _drain(self) -> None:
        deadline = Deadline(CALL_S)
        while True:
            try:
                waiting = self._live().flush(deadline.slice_s())
            except (KafkaException, SystemError) as raised:
                raise self._translated("flush", raised, MustAbort) from raised
            if waiting == 0:
                return
            if deadline.passed:
                raise MustAbort(f"{waiting} records unsent after {CALL_S:.0f} s{self._troubles.why()}")

    def _raise_refusals(self) -> None:
        failed = [(error, message) for error, message in self._reports if error is not None]
        if not failed:
            return
        # A refused record fails every other record of its batch too: name one that is itself at fault.
        error, message = next(((e, m) for e, m in failed if e.code() in RECORD_AT_FAULT), failed[0])
        topic = message.topic() or ""
        foreign = topic in self._foreign
        if all(e.code() == TIMED_OUT and m.topic() in self._foreign for e, m in failed):
            raise TopicStuck(f"produce to {topic}: {describe(error)}, though ours arrived", topic=topic)
        raise self._refused(
            error, topic if foreign else self._names.bare(topic), message.key(), foreign=foreign
        )

    def _changelog_offsets(self) -> dict[int, int]:
        topic = self._names.full(CHANGELOG)
        found: dict[int, int] = {}
        for _, message in self._reports:
            partition, offset = message.partition(), message.offset()
            if message.topic() == topic and partition is not None and offset is not None:
                found[partition] = offset
        assert found.keys() == self._logged, "every shard's last record has been reported"
        return found

    def _refused(self, error: KafkaError, topic: str, key: bytes | None, *, foreign: bool) -> LogError:
        """Return what a failed record raises; `MustAbort` names the record only if that one is to blame.

        A record that timed out, or one of our own topics that is gone, says nothing about the inputs of the turn.
        """
        text = f"produce to {topic}: {describe(error)}"
        if judge(error) is Verdict.UNUSABLE:
            return Fenced(text)
        if error.code() in RECORD_AT_FAULT or (foreign and error.code() in DESTINATION_AT_FAULT):
            return MustAbort(text, topic=topic, key=key)
        return MustAbort(text)

    def _call(
        self,
        name: str,
        call: Callable[[float], None],
        exhausted: type[LogError],
        otherwise: type[LogError],
    ) -> None:
        """Call until it works; retriable errors are retried for `CALL_S`, then end as `exhausted`."""
        deadline = Deadline(CALL_S)
        while True:
            try:
                call(deadline.slice_s())
                return
            except (KafkaException, SystemError) as raised:
                error = error_of(raised)
                if error is None or judge(error) is not Verdict.RETRY:
                    raise self._translated(name, raised, otherwise) from raised
                if deadline.passed:
                    raise exhausted(f"{name}: {describe(error)}{self._troubles.why()}") from raised

    def _translated(self, name: str, raised: BaseException, otherwise: type[LogError]) -> LogError:
        error = error_of(raised)
        if error is None:
            return Fenced(
                f"{name}: {raised}"
            )  # SystemError without a cause: the client object is beyond repair
        text = f"{name}: {describe(error)}"
        verdict = judge(error)
        if verdict is Verdict.UNUSABLE:
            return Fenced(text)
        return MustAbort(text) if verdict is Verdict.ABORT else otherwise(text)


def _error(raised: KafkaException) -> KafkaError:
    error = error_of(raised)
    assert error is not None, "KafkaException carries a KafkaError"
    return error
