"""How transactions ended, by what their coordinator wrote down: Kafka's internal topic `__transaction_state`.

No request of the client's tells of a transaction that is over. The format is Kafka's: `TransactionLogKey` version 0,
`TransactionLogValue` versions 0 and 1. What is none of these is passed over, and nothing is known then.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from scheduler.dispatcher.ports import LogError
from scheduler.kafka import client_settings
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import PARTITION_END, describe
from scheduler.kafka.layout import COORDINATOR_LOG
from scheduler.kafka.told_offsets import Place
from scheduler.kafka.troubles import Troubles

_READ_S: Final = 5.0
_BATCH: Final = 1_000
_PREPARE_COMMIT: Final = 2
_PREPARE_ABORT: Final = 3


class Ended(NamedTuple):
    """A transaction of which the coordinator has decided the end, and its times there. `places` are its partitions."""

    committed: bool
    start_ms: int
    at_ms: int
    places: tuple[Place, ...]


def ended_transactions(
    properties: Mapping[str, str], group: str, transactional_id: str, since_ms: int
) -> list[Ended]:
    """Return the transactions of an id that ended since then, in order, as far as the log still has them.

    Raises `LogError` if it can't be read: no broker answers, or the right is missing.
    """
    consumer = Troubles().consumer(client_settings.follower(properties, group))
    try:
        values = _values(consumer, transactional_id, since_ms)
        return [ended for value in values if (ended := ended_in(value)) is not None]
    except KafkaException as raised:
        raise LogError(f"{COORDINATOR_LOG}: {describe(raised.args[0])}") from raised
    finally:
        consumer.close()


def _values(consumer: Consumer, transactional_id: str, since_ms: int) -> Iterator[bytes]:
    number = partition_of(transactional_id, _partitions(consumer))
    (begin,) = consumer.offsets_for_times(
        [TopicPartition(COORDINATOR_LOG, number, since_ms)], timeout=_READ_S
    )
    if begin.offset < 0:
        return  # nothing since then
    consumer.assign([begin])
    deadline = Deadline(_READ_S)
    while not deadline.passed:
        for message in consumer.consume(_BATCH, deadline.slice_s()):
            error, value = message.error(), message.value()
            if error is None:
                if value is not None and _id_in(message.key() or b"") == transactional_id:
                    yield value
            elif error.code() == PARTITION_END:
                return
    raise LogError(f"{COORDINATOR_LOG}/{number}: not read to its end within {_READ_S:g} s")


def _partitions(consumer: Consumer) -> int:
    topic = consumer.list_topics(COORDINATOR_LOG, timeout=_READ_S).topics.get(COORDINATOR_LOG)
    error: KafkaError | None = None if topic is None else topic.error
    if topic is None or error is not None or not topic.partitions:
        raise LogError(f"{COORDINATOR_LOG}: {describe(error) if error is not None else 'there is none'}")
    return len(topic.partitions)


def partition_of(transactional_id: str, partitions: int) -> int:
    """Return where the coordinator of an id writes: Java's hash of the text, its absolute value, modulo the partitions."""
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", transactional_id.encode("utf-16-be")):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return (0 if hashed == 1 << 31 else abs(signed)) % partitions


def _id_in(key: bytes) -> str:
    """Return the transactional id of a key, empty for another version."""
    if len(key) < 4 or key[:2] != b"\0\0":
        return ""
    return key[4 : 4 + int.from_bytes(key[2:4], "big")].decode(errors="replace")


def ended_in(value: bytes) -> Ended | None:
    """Return the transaction whose end a value decides; None for any other state or version."""
    try:
        return _ended_in(_Fields(value))
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _ended_in(fields: "_Fields") -> Ended | None:
    version = fields.take(">h")
    if version not in {0, 1}:
        return None
    _producer_id, _epoch, _timeout_ms = fields.take(">q"), fields.take(">h"), fields.take(">i")
    state = fields.take(">b")
    if state not in {_PREPARE_COMMIT, _PREPARE_ABORT}:
        return None
    compact = version == 1
    places = [place for _ in range(fields.count(compact)) for place in _places_in(fields, compact)]
    at_ms, start_ms = fields.take(">q"), fields.take(">q")
    return Ended(state == _PREPARE_COMMIT, start_ms, at_ms, tuple(places))


def _places_in(fields: "_Fields", compact: bool) -> list[Place]:  # noqa: FBT001 - the format's own flag
    topic = fields.text(compact)
    places = [(topic, fields.take(">i")) for _ in range(fields.count(compact))]
    if compact:
        fields.skip_tagged()
    return places


class _Fields:
    """The fields of a record of Kafka's protocol, one after the other; compact ones have lengths of varying size."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def take(self, form: str) -> int:
        (number,) = struct.unpack_from(form, self._raw, self._at)
        self._at += struct.calcsize(form)
        assert isinstance(number, int)
        return number

    def count(self, compact: bool) -> int:  # noqa: FBT001
        return self._varying() - 1 if compact else self.take(">i")

    def text(self, compact: bool) -> str:  # noqa: FBT001
        length = self._varying() - 1 if compact else self.take(">h")
        self._at += length
        return self._raw[self._at - length : self._at].decode()

    def skip_tagged(self) -> None:
        for _ in range(self._varying()):
            self._varying()
            size = self._varying()
            self._at += size

    def _varying(self) -> int:
        number = shift = 0
        while True:
            byte = self._raw[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
