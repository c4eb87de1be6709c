"""Kafka's errors to the three that a submitter meets."""

from typing import Any, Final

from confluent_kafka import KafkaError, Message

from scheduler.client.config import ClientConfig
from scheduler.client.errors import InvalidJob, NotSubmitted, SubmitError, SubmitUnknown
from scheduler.client.request import Request

_TOO_LARGE: Final = frozenset((KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE))
_REFUSED: Final = frozenset((KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION))
_NO_TOPIC: Final = frozenset((
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_EXCEPTION,
))  # fmt: skip
_FORBIDDEN: Final = frozenset(
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
)
_TIMED_OUT: Final = frozenset((KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT))
_BAD_CREDENTIALS: Final = frozenset((
    KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
))  # fmt: skip


def failure_in(error: KafkaError | None, message: Message) -> KafkaError | None:
    """Return why a delivery report is no acknowledgement. Without an offset it is none, though it has no error.

    The client reports so what it *takes* to be written: where a request ended unanswered and a later one of the same
    partition was taken. But a broker takes any sequence from a producer that it does not know yet, so after a change of
    leaders the first may never have been written.
    """
    if error is None and message.offset() is None:
        return KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return error


def undelivered(error: KafkaError, request: Request[Any], topic: str, config: ClientConfig) -> SubmitError:
    """Return what a failed delivery report means for the submitter.

    Whatever is not known to have been refused may have been written: an idempotent producer tries again by
    itself, and the last error says nothing of the tries before.
    """
    code = error.code()
    job = request.spec.type
    if code in _TOO_LARGE:
        return InvalidJob(
            f"{job}: record of {len(request.encoded())} bytes is above max.message.bytes of {topic}"
        )
    if code in _REFUSED:
        return InvalidJob(f"{job}: {topic} refused the record: {error.str()}")
    known = topic_problem(error, topic, config)
    if known is not None:
        return known
    if code in _TIMED_OUT:
        return no_acknowledgement(request, config)
    return SubmitUnknown(request.id, f"not acknowledged: {error.name()}")


def no_acknowledgement(request: Request[Any], config: ClientConfig) -> SubmitUnknown:
    """Return the error for a record whose delivery report did not come in time."""
    return SubmitUnknown(request.id, f"no acknowledgement within {config.timeout_s:g} s")


def topic_problem(error: KafkaError, topic: str, config: ClientConfig) -> NotSubmitted | None:
    """Return the error for a topic that is missing or closed to us, or None if it is something else."""
    code = error.code()
    if code in _NO_TOPIC:
        return NotSubmitted(
            f"there is no topic {topic} at {config.bootstrap}, or it lacks the job's partition. "
            "Create the topics with 'scheduler topics apply', or set JOBS_PREFIX",
        )
    if code in _FORBIDDEN:
        return NotSubmitted(
            f"not allowed to write {topic}: this principal needs an ACL that allows Write on it"
        )
    return None


def unreachable(last: KafkaError | None, config: ClientConfig) -> NotSubmitted:
    """Return the error for brokers that do not answer. `last` is the last thing that the connection told."""
    if last is not None and last.code() in _BAD_CREDENTIALS:
        return NotSubmitted(f"{config.bootstrap} does not let us in: {last.str()}")
    return NotSubmitted(
        f"no broker answered at {config.bootstrap} within {config.timeout_s:g} s. "
        "Start one with 'scheduler dev', or set KAFKA_BOOTSTRAP_SERVERS",
    )


def queue_full(config: ClientConfig) -> NotSubmitted:
    """Return the error for a local queue that stayed full."""
    return NotSubmitted(
        f"the local queue stayed full for {config.timeout_s:g} s: {config.queue_records} records or "
        f"{config.queue_kib} KiB wait for {config.bootstrap} to acknowledge them",
    )
