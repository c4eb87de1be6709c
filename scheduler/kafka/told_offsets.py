"""Where partitions end, asked without waiting; and what the client answers to such questions."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not re-exported by the stub's rules
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

_ANSWER_S: Final = 5.0
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Place = tuple[str, int]
"""A partition: topic, number."""


def ask_ends(
    client: AdminClient, places: Iterable[Place], level: IsolationLevel
) -> dict[Place, "Future[ListOffsetsResultInfo]"]:
    """Ask the leaders of `places`, at least one, for their ends; each answers by itself, within 5 s."""
    wanted = {TopicPartition(topic, number): _LATEST for topic, number in places}
    asked = client.list_offsets(wanted, isolation_level=level, request_timeout=_ANSWER_S)
    return {(at.topic, at.partition): answer for at, answer in asked.items()}


def offset_in(answer: ListOffsetsResultInfo) -> int:
    """Return the offset that a broker told. Raises `KafkaException` if there is none.

    Where a leader goes away between the question and the answer, the client hands over -1001 without any error. Taken
    for the end of a changelog it would have a good store wiped, or an empty one pass for a whole one; as a place to
    read from it makes the client ask for its reset policy.
    """
    if answer.offset < 0:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return int(answer.offset)
