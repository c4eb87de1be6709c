"""Where a client's connection comes from, and what of it nobody may change."""

import inspect

import pytest
from confluent_kafka import KafkaError, KafkaException

import scheduler
from scheduler import Client, NotSubmitted
from scheduler.client import errors
from scheduler.client.config import ClientConfig, Pace, config_from, producer_properties
from scheduler.client.delivery import undelivered, unreachable
from scheduler.client.process import Process


def test_the_environment_under_what_is_given():
    environ = {
        "KAFKA_BOOTSTRAP_SERVERS": "a:1",
        "KAFKA_CLIENT_ID": "me",
        "JOBS_PREFIX": "x.",
        "KAFKA_PORT": "tcp://",
    }
    config = config_from(environ)
    assert (config.prefix, config.bootstrap) == ("x.", "a:1")
    assert dict(config.properties) == {"bootstrap.servers": "a:1", "client.id": "me"}
    assert config_from(environ, {"bootstrap.servers": "b:2"}, "y.").bootstrap == "b:2"
    assert config_from({}).bootstrap == "127.0.0.1:9092"
    assert config_from({}).prefix == "jobs."


@pytest.mark.parametrize(
    "name", ["acks", "enable.idempotence", "message.timeout.ms", "queue.buffering.max.messages"]
)
def test_what_a_receipt_rests_on_can_t_be_changed(name):
    with pytest.raises(ValueError, match=f"{name} can't be changed: that a receipt means 'Kafka has it'"):
        Client(connection={name: "1"})
    by_environment = config_from({f"KAFKA_{name.upper().replace('.', '_')}": "1"})
    for pace in Pace:
        assert (
            producer_properties(by_environment, pace)[name]
            == producer_properties(config_from({}), pace)[name]
        )


def test_a_single_submit_does_not_linger():
    properties = producer_properties(config_from({"KAFKA_LINGER_MS": "1000"}), Pace.PROMPT)
    assert properties["linger.ms"] == 0
    assert properties["acks"] == "all"
    assert properties["enable.idempotence"] is True


def test_a_property_that_there_is_not(submitter_at, request_of):
    with (
        Client(connection={"no.such.thing": "1"}) as client,
        pytest.raises(NotSubmitted, match=r"the Kafka settings can't be used: .*no\.such\.thing"),
    ):
        client.submit("a.b")


class _BrokenLane:
    """A producer after a fatal error, then a good one."""

    def __init__(self, error):
        self.error = error
        self.produced = []
        self.abandoned = False

    def abandon(self):
        self.abandoned = True

    def produce(self, *record):
        if self.error is not None:
            raise KafkaException(self.error)
        self.produced.append(record)


def test_a_producer_with_a_fatal_error_is_replaced():
    process = Process(config_from({}))
    broken, good = _BrokenLane(KafkaError(KafkaError._FATAL)), _BrokenLane(None)
    process._lanes[Pace.PROMPT] = broken
    process._new_lane = lambda _pace: good
    assert list(process.tries(Pace.PROMPT, "t", 0, "key", b"value", print)) == []
    assert len(good.produced) == 1
    assert broken.abandoned


CONFIG = ClientConfig({"bootstrap.servers": "a:1"})


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, errors.InvalidJob, "above max.message.bytes of topic-1"),
        (KafkaError.INVALID_RECORD, errors.InvalidJob, "topic-1 refused the record"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.NotSubmitted, "needs an ACL that allows Write on it"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.NotSubmitted, "there is no topic topic-1 at a:1"),
        (KafkaError._MSG_TIMED_OUT, errors.SubmitUnknown, "no acknowledgement within 10 s"),
        (
            KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            errors.SubmitUnknown,
            "not acknowledged: NOT_ENOUGH_REPLICAS",
        ),
        (KafkaError._PURGE_QUEUE, errors.SubmitUnknown, "not acknowledged: _PURGE_QUEUE"),
        (KafkaError._FATAL, errors.SubmitUnknown, "not acknowledged: _FATAL"),
    ],
)
def test_what_a_delivery_error_means(request_of, code, kind, text):
    error = undelivered(KafkaError(code), request_of(), "topic-1", CONFIG)
    assert type(error) is kind
    assert text in str(error)


def test_bad_credentials_are_not_called_a_missing_broker():
    told = str(unreachable(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication failed"), CONFIG))
    assert told == "a:1 does not let us in: SASL authentication failed"


def test_the_words_of_the_page():
    assert str(unreachable(None, ClientConfig({"bootstrap.servers": "127.0.0.1:9092"}))) == (
        "no broker answered at 127.0.0.1:9092 within 10 s. Start one with 'scheduler dev', or set KAFKA_BOOTSTRAP_SERVERS"
    )
    assert str(errors.SubmitUnknown("0199", "no acknowledgement within 10 s")) == (
        "SubmitUnknown(job_id='0199'): sent, but no acknowledgement within 10 s. It may run. "
        "Submit again with the same id to be sure: options(job_id=e.job_id)"
    )
    assert str(errors.NoGateway("doing this", "Do that")) == (
        "doing this is not possible in this version, which has no gateway. Do that"
    )


def test_errors_print_under_the_name_that_users_import():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert {f"{kind.__module__}.{kind.__name__}" for kind in kinds} == {
        f"scheduler.{name}"
        for name in ("JobsError", "SubmitError", "InvalidJob", "NotSubmitted", "SubmitUnknown", "NoGateway")
    }
    assert all(getattr(scheduler, kind.__name__) is kind for kind in kinds)
    assert issubclass(errors.InvalidJob, ValueError)
