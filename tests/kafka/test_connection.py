"""KAFKA_* variables become librdkafka properties; what Kubernetes or Kafka's own scripts use does not."""

import pytest

from scheduler.kafka.connection import connection_from, properties_from


def test_names_are_lowered_and_dotted():
    environ = {"KAFKA_SASL_OAUTHBEARER_CLIENT_ID": "a", "KAFKA_BOOTSTRAP_SERVERS": "b:9092", "PATH": "/bin"}
    assert connection_from(environ, {}) == {"sasl.oauthbearer.client.id": "a", "bootstrap.servers": "b:9092"}


@pytest.mark.parametrize(
    "name",
    [
        "KAFKA_SERVICE_HOST",
        "KAFKA_SERVICE_PORT",
        "KAFKA_SERVICE_PORT_TCP_CLIENT",
        "KAFKA_PORT",
        "KAFKA_PORT_9092_TCP",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_BROKERS_SERVICE_HOST",
        "KAFKA_BROKERS_PORT_9092_TCP_PROTO",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_HOME",
        "KAFKA_",
    ],
)
def test_what_is_no_setting_is_ignored(name):
    assert connection_from({name: "x"}, {}) == {"bootstrap.servers": "127.0.0.1:9092"}


def test_a_kerberos_service_name_is_a_setting():
    assert connection_from({"KAFKA_SASL_KERBEROS_SERVICE_NAME": "k"}, {})["sasl.kerberos.service.name"] == "k"


def test_overrides_win_and_empty_values_are_not_set():
    environ = {"KAFKA_CLIENT_ID": "env", "KAFKA_BOOTSTRAP_SERVERS": ""}
    assert connection_from(environ, {"client.id": "mine", "client.rack": ""}) == {
        "bootstrap.servers": "127.0.0.1:9092",
        "client.id": "mine",
    }


def test_properties_files():
    text = "# comment\n! comment\n\n a = b = c \nempty=\n"
    assert properties_from(text) == {"a": "b = c", "empty": ""}
    with pytest.raises(ValueError, match="line 2 is not key=value"):
        properties_from("a=b\nnonsense\n")
