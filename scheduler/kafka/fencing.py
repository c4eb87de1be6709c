"""Ending what a dead owner left open."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException, Producer

from scheduler.dispatcher.ports import LogError
from scheduler.kafka import client_settings
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import Verdict, describe, error_of, judge
from scheduler.kafka.troubles import Troubles

_INIT_S: Final = 10.0


def resolve_transactions_of(owner: str, properties: Mapping[str, str]) -> Producer:
    """Abort the open transaction of the transactional id `owner` and fence whoever still uses it; 0.6-1 s.

    Only for an owner that is no longer a member of the group: a live process would lose what it is doing. Returns a
    producer of that id, with nothing open. Raises `LogError` if the coordinator does not answer within 10 s or refuses.
    """
    troubles = Troubles()
    producer = troubles.producer(client_settings.transactional(properties, owner))
    deadline = Deadline(_INIT_S)
    while True:
        try:
            producer.init_transactions(deadline.slice_s())
            return producer
        except KafkaException as raised:
            error = error_of(raised)
            if error is None or judge(error) is not Verdict.RETRY or deadline.passed:
                text = describe(error) if error is not None else str(raised)
                raise LogError(f"fencing {owner}: {text}{troubles.why()}") from raised
