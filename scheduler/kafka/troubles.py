"""What the client says on the side: its log lines and its errors that belong to no call."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from scheduler.dispatcher.ports import LogError
from scheduler.kafka.client_settings import Properties
from scheduler.kafka.errors import describe

LOG: Final = logging.getLogger("scheduler.kafka")
LOG.addHandler(logging.NullHandler())  # silent unless the program sets logging up
_CLIENT_LOG: Final = logging.getLogger("scheduler.kafka.client")
_REPEAT_S: Final = 30.0
_NUMBERS: Final = re.compile(r"\d+")


class _OncePerWhile(logging.Filter):
    """Lets each kind of line through once in 30 s: six consumers tell of a broker that is away ten times a second.

    Lines that differ only in numbers are of one kind.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now_s = _NUMBERS.sub("", record.getMessage()), time.monotonic()
        if now_s < self._next_s.get(kind, 0.0):
            return False
        self._next_s = {other: until_s for other, until_s in self._next_s.items() if until_s > now_s}
        self._next_s[kind] = now_s + _REPEAT_S
        return True


_CLIENT_LOG.addFilter(_OncePerWhile())


class Troubles:
    """Remembers the last of the client's stray errors, to name the cause when a call runs out of time.

    A wrong password, for example, shows only here: the calls themselves just time out.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Remember an error and do nothing else.

        The client calls this inside poll and flush; asking the error for its name there, while a fenced
        producer's exception is pending, ends in `SystemError`.
        """
        self._last = error

    def why(self) -> str:
        """Return ` (last error: …)`, or nothing."""
        return f" (last error: {describe(self._last)})" if self._last is not None else ""

    def consumer(self, settings: Properties) -> Consumer:
        """Make a consumer. Raises `LogError` with the client's own words if it does not take the settings."""
        try:
            return Consumer(self.attached(settings))
        except KafkaException as refused:
            raise LogError(f"consumer settings: {refused.args[0].str()}") from refused

    def producer(self, settings: Properties, **callbacks: object) -> Producer:
        """Make a producer. Raises `LogError` with the client's own words if it does not take the settings."""
        try:
            return Producer({**self.attached(settings), **callbacks})
        except KafkaException as refused:
            raise LogError(f"producer settings: {refused.args[0].str()}") from refused

    def attached(self, settings: Properties) -> dict[str, object]:
        """Return `settings` with the client's errors and log lines led here."""
        note: Callable[[KafkaError], None] = self.note
        return {**settings, "error_cb": note, "logger": _CLIENT_LOG}
