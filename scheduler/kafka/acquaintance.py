"""Makes a client acquainted with a topic before, or right after, a partition of it is assigned by hand.

An idle client looks for the leaders of what it was assigned by a timer of a second (librdkafka 2.16, measured: the first
record after 300 to 1,100 ms, when nobody had asked for the topic before). A question for the topic tells it at once.
"""

from typing import Final

from confluent_kafka import Consumer, KafkaException

from scheduler.kafka.troubles import LOG

_ANSWER_S: Final = 0.5


def acquaint(consumer: Consumer, topic: str) -> None:
    """Ask for the topic; without an answer in time the timer does it."""
    try:
        consumer.list_topics(topic, timeout=_ANSWER_S)
    except KafkaException as refused:
        LOG.info("leaders of %s: %s", topic, refused)
