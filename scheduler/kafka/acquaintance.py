"""Makes a client acquainted with a topic of which a partition is assigned by hand.

An idle client looks for the leaders of what it was assigned by a timer of a second (librdkafka 2.16, measured: the first
record after 300 to 1,100 ms, when nobody had asked for the topic before). A question for the topic tells it at once,
before the assignment or after it. Where a leader's epoch goes with the position it has to be after it: the client checks
that only as it learns of the leader.
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
