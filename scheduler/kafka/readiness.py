"""Is a cluster up, and is its first use as fast as every later one? For brokers that we start ourselves."""

import logging
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_COMPACTED = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 * 1024 * 1024),
}
"""What the broker itself gives its internal topics when their first use creates them."""

_INTERNAL_TOPICS = ("__transaction_state", "__consumer_offsets")
_WARM_UP_ID = "devkafka-warm-up"
_POLL_S = 0.05
_CALL_S = 5.0
_TRY_S = 0.1


class NotReadyError(Exception):
    """The cluster did not answer as it should before the deadline."""


def wait_for_brokers(
    bootstrap: str, node_ids: frozenset[int], deadline_s: float, alive: Callable[[], None]
) -> None:
    """Wait until all of ``node_ids`` are registered with the cluster at ``bootstrap``.

    ``deadline_s`` is a reading of time.monotonic(). ``alive`` is called between tries and raises when waiting has
    become useless, for example since a node's process ended. Raises NotReadyError at the deadline.
    """
    admin = _admin(bootstrap)
    seen: frozenset[int] = frozenset()
    while time.monotonic() < deadline_s:
        alive()
        try:
            seen = frozenset(admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            seen = frozenset()
        if node_ids <= seen:
            return
        time.sleep(_POLL_S)
    raise NotReadyError(f"{len(seen & node_ids)} of {len(node_ids)} brokers answered at {bootstrap}")


def answers(properties: Mapping[str, str], timeout_s: float) -> bool:
    """Does any broker answer within ``timeout_s`` to a client with these librdkafka properties?

    Raises ValueError for a property that librdkafka refuses.
    """
    try:
        admin = AdminClient({**properties, "log_level": 0}, logger=_silent())
    except KafkaException as error:
        raise ValueError(str(error.args[0])) from error
    try:
        return bool(admin.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def warm_up(bootstrap: str, partitions: int, replicas: int, deadline_s: float) -> None:
    """Create the offsets and transaction topics now and use a transaction coordinator once.

    Without it the first ``init_transactions`` takes a second: the topic is created on demand and the client retries
    every 500 ms. Raises NotReadyError at ``deadline_s`` (time.monotonic()).
    """
    admin = _admin(bootstrap)
    topics = [NewTopic(name, partitions, replicas, config=_COMPACTED) for name in _INTERNAL_TOPICS]
    for name, created in admin.create_topics(topics, operation_timeout=_CALL_S).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise NotReadyError(f"{name} can't be created: {error}") from error
    _use_a_transaction_coordinator(bootstrap, deadline_s)


def _use_a_transaction_coordinator(bootstrap: str, deadline_s: float) -> None:
    """Try with a new producer every 100 ms: one producer waits 500 ms between its own tries, whatever is set."""
    while True:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": _WARM_UP_ID, "log_level": 0},
            logger=_silent(),
        )
        is_last = time.monotonic() + _CALL_S >= deadline_s
        try:
            producer.init_transactions(_CALL_S if is_last else _TRY_S)
        except KafkaException as error:
            if is_last or not error.args[0].retriable():
                raise NotReadyError(f"transactions don't work: {error}") from error
        else:
            return


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
        },
        logger=_silent(),
    )


def _silent() -> logging.Logger:
    """A logger for clients whose refused connections are expected: the broker is still starting."""
    logger = logging.getLogger("scheduler.devkafka.silent")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
