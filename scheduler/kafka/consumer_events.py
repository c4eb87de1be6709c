"""What a consumer's event means for its owner: the client hands errors over as messages."""

from confluent_kafka import KafkaError

from scheduler.dispatcher.ports import Fenced, LogError
from scheduler.kafka.errors import FATAL_EVENT, MISCONFIGURED, REFUSED_ACCESS, describe
from scheduler.kafka.troubles import LOG


def failure_of(error: KafkaError, consumer: str) -> LogError | None:
    """Return what to raise for an event that is neither a partition's end nor a lost position.

    What the client mends by itself (transport and the like) is only logged.
    """
    text = f"{consumer}: {describe(error)}"
    if error.code() == FATAL_EVENT or error.fatal():
        return Fenced(text)
    if error.code() in REFUSED_ACCESS or error.code() in MISCONFIGURED:
        return LogError(text)
    LOG.info("%s", text)
    return None
