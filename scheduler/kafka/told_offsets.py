"""What the client answers to where a partition begins or ends."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo  # type: ignore[attr-defined]  # public, not re-exported by the stub


def offset_in(answer: ListOffsetsResultInfo) -> int:
    """Return the offset that a broker told. Raises `KafkaException` if there is none.

    Where a leader goes away between the question and the answer, the client hands over -1001 without any error. Taken
    for the end of a changelog it would have a good store wiped, or an empty one pass for a whole one; as a place to
    read from it makes the client ask for its reset policy.
    """
    if answer.offset < 0:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return int(answer.offset)
