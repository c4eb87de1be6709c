"""One producer of one process, and the thread that serves its delivery reports."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from scheduler.client import forks

Report = Callable[[KafkaError | None, Any], None]
"""Called with (error or None, message) by whichever thread serves the reports. Must only store what it gets."""

_log = logging.getLogger("scheduler.client")
_SERVE_S = 0.1  # how long one look for delivery reports lasts
_IDLE_S = 1.0  # how often connection errors and log lines are served while nothing is on its way
_ROOM_S = 0.02  # how long to wait for delivery reports to make room before the next try


class _Quietly:
    """Takes librdkafka's log lines down to DEBUG: what matters of them reaches the submitter as an exception."""

    def log(self, _level: int, text: str, *args: object) -> None:
        """Log one line."""
        _log.debug(text, *args)


class Lane:
    """A producer whose delivery reports are always served.

    `suspect` is true from the first sign of trouble to the next acknowledgement: whether a record was sent can't
    be told from its delivery report, so while it is true callers first make sure that a broker answers. Then a
    submit during an outage fails as `not sent` and not as `unknown`.
    """

    def __init__(self, properties: Mapping[str, str | int | bool]) -> None:
        """Make the producer; it connects in the background."""
        self.suspect = False
        self.last_error: KafkaError | None = None
        settings = {**properties, "error_cb": self._on_error}
        self._producer = Producer(settings, logger=_Quietly())
        forks.watch(self._producer)
        self._busy = threading.Event()
        self._leaving = False  # the thread ends once nothing is on its way
        self._stopping = False  # it ends now
        self._thread = threading.Thread(target=self._serve, name="scheduler-client", daemon=True)
        self._thread.start()

    def produce(self, topic: str, partition: int, key: str, value: bytes, report: Report) -> None:
        """Queue a record. `BufferError` if the local queue is full, `KafkaException` if it can't ever be sent."""
        self._producer.produce(topic, value, key, partition, report)
        if not self._busy.is_set():
            self._busy.set()

    def wait_for_room(self) -> None:
        """Serve delivery reports for a moment."""
        self._producer.poll(_ROOM_S)

    def serve(self, longest_s: float) -> None:
        """Serve delivery reports until one came or `longest_s` passed."""
        self._producer.poll(longest_s)

    def topics(self, topic: str, timeout_s: float) -> Any:
        """Return the metadata of `topic` fresh from a broker; `KafkaException` if none answers in time."""
        return self._producer.list_topics(topic, max(timeout_s, 0.001))

    def failed(self, error: KafkaError) -> None:
        """Note that a record was not acknowledged."""
        self.suspect = True
        self.last_error = error

    def close(self, timeout_s: float) -> int:
        """Send what is queued, for `timeout_s` at most, stop the thread, and return how many records are left."""
        left = self._flush(timeout_s)
        self._stopping = True
        self.abandon()
        self._thread.join(timeout_s)
        return left

    def abandon(self) -> None:
        """Let the thread end by itself once nothing is on its way; return at once."""
        self._leaving = True
        self._busy.set()

    def _flush(self, timeout_s: float) -> int:
        deadline_s = time.monotonic() + timeout_s
        try:
            while len(self._producer) and time.monotonic() < deadline_s:
                self._producer.poll(_SERVE_S)
        except KafkaException as error:
            _log.warning("at close: %s", error)
        return len(self._producer)

    def _serve(self) -> None:
        # `_busy` is cleared before the queue is looked at: a record queued in between is seen by that look, one
        # queued after it sets the event again. The other order would lose the wake-up and a report would wait.
        while not self._leaving or len(self._producer):
            self._busy.clear()
            while len(self._producer) and not self._stopping:
                self._poll(_SERVE_S)
            if self._stopping:
                break
            if not self._leaving and not self._busy.wait(_IDLE_S):
                self._poll(0)
        forks.unwatch(self._producer)

    def _poll(self, longest_s: float) -> None:
        try:
            self._producer.poll(longest_s)
        except Exception:  # noqa: BLE001 - a delivery report's receiver may fail; the others must still be served
            _log.exception("serving delivery reports")

    def _on_error(self, error: KafkaError) -> None:
        self.suspect = True
        self.last_error = error
