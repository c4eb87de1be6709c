"""What an error of the client means for the caller.

The same code comes with different flags (`_TIMED_OUT` from a commit is retriable, the same one after a record
timed out requires an abort), so the flags decide, in this order: `fatal()`, `txn_requires_abort()`, `retriable()`.
"""

import re
from enum import Enum, auto
from typing import Final

from confluent_kafka import KafkaError, KafkaException

FATAL_EVENT: Final = KafkaError._FATAL
PARTITION_END: Final = KafkaError._PARTITION_EOF
POSITION_LOST: Final = frozenset(
    (
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._LOG_TRUNCATION,
        KafkaError.OFFSET_OUT_OF_RANGE,
    )
)
_CUT_TO: Final = re.compile(r"truncation detected at .* broker end offset is (\d+)")

REFUSED_ACCESS: Final = frozenset(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    )
)
"""Waiting does not help: an operator has to give rights or a password."""

MISCONFIGURED: Final = frozenset(
    (
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
)
"""Nor here: group settings that the broker refuses, topics that nobody created."""

RECORD_AT_FAULT: Final = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
    )
)
"""The record itself is refused; sent again, it would end the same way."""

DESTINATION_AT_FAULT: Final = frozenset(
    (
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
    )
)
"""Where it goes is wrong: whoever named a foreign topic is to blame, but nobody for one of ours."""

TIMED_OUT: Final = KafkaError._MSG_TIMED_OUT
"""A record that was tried for as long as it may be."""

REFUSED_RECORD: Final = RECORD_AT_FAULT | DESTINATION_AT_FAULT


class Verdict(Enum):
    """What an error asks of the caller."""

    UNUSABLE = auto()  # throw the client away
    ABORT = auto()  # abort the transaction
    RETRY = auto()  # call the same function again
    OTHER = auto()  # none of these: our mistake, or a refusal


def judge(error: KafkaError) -> Verdict:
    """Decide by the flags of an error, never by its code."""
    if error.fatal():
        return Verdict.UNUSABLE
    if error.txn_requires_abort():
        return Verdict.ABORT
    return Verdict.RETRY if error.retriable() else Verdict.OTHER


def error_of(raised: BaseException) -> KafkaError | None:
    """Return the client's error inside an exception, or None.

    `flush` of a fenced producer may raise `SystemError` with the real `KafkaException` as its cause.
    """
    for candidate in (raised, raised.__cause__, raised.__context__):
        if (
            isinstance(candidate, KafkaException)
            and candidate.args
            and isinstance(candidate.args[0], KafkaError)
        ):
            return candidate.args[0]
    return None


def cut_to(error: KafkaError) -> int:
    """Return where a truncated log lost its end, as a lost position's error tells; -1 if it speaks of none.

    The client has no code for it: with `auto.offset.reset=error` it is `_AUTO_OFFSET_RESET` like every lost position.
    """
    told = _CUT_TO.search(error.str())
    return int(told.group(1)) if told else -1


def describe(error: KafkaError) -> str:
    """Return `NAME: text` of an error."""
    return f"{error.name()}: {error.str()}"
