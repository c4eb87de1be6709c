"""Finds where a log lost its end, once it has grown again: from there on its records are of a later leader."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from scheduler.kafka import client_settings
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import PARTITION_END
from scheduler.kafka.told_offsets import Place
from scheduler.kafka.troubles import LOG, Troubles

_ANSWER_S: Final = 5.0


def find_cut(properties: Mapping[str, str], group: str, place: Place, low: int, high: int, epoch: int) -> int:
    """Return the first offset from `low` on that a leader after `epoch` appended at; -1 if that can't be told now.

    The record at `high` is known to be of a later leader. Epochs never fall along a log, so halving finds it.
    """
    consumer = Troubles().consumer(client_settings.onlooker(properties, group))
    deadline = Deadline(_ANSWER_S)
    try:
        while low < high:
            middle = (low + high) // 2
            offset, found = _record_from(consumer, place, middle, deadline)
            if found > epoch:
                high = middle
            else:
                low = offset + 1
    except (KafkaException, TimeoutError) as error:
        LOG.warning("where %s/%d lost its end can't be told: %s", *place, error)
        return -1
    finally:
        consumer.close()
    return high


def _record_from(consumer: Consumer, place: Place, start: int, deadline: Deadline) -> tuple[int, int]:
    """Return offset and epoch of the first record at or behind `start`."""
    consumer.assign([TopicPartition(*place, start)])
    while not deadline.passed:
        message = consumer.poll(deadline.slice_s())
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() != PARTITION_END:
            raise KafkaException(error)
        offset, epoch = message.offset(), message.leader_epoch()
        if error is None and offset is not None and epoch is not None and offset >= start:
            return offset, epoch
    raise TimeoutError(f"no record from {start} on within {_ANSWER_S:g} s")
