"""What a consumer's events mean: by their flags first, and what waiting does not mend is raised."""

import pytest
from confluent_kafka import KafkaError

from scheduler.dispatcher.ports import Fenced, LogError
from scheduler.kafka.consumer_events import failure_of


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KafkaError(KafkaError._FATAL), Fenced),
        (KafkaError(KafkaError.FENCED_INSTANCE_ID, fatal=True), Fenced),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), LogError),
        (KafkaError(KafkaError._UNKNOWN_TOPIC), LogError),
        (KafkaError(KafkaError._TRANSPORT), type(None)),
        (KafkaError(KafkaError._ALL_BROKERS_DOWN), type(None)),
    ],
)
def test_an_event_is_raised_or_left_to_the_client(error, raised):
    failure = failure_of(error, "changelog")
    assert type(failure) is raised
    assert failure is None or str(failure).startswith("changelog: ")
