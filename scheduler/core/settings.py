"""Queue settings as data: what `settings.yaml` says about each queue, by name or pattern."""

from fnmatch import fnmatchcase
from typing import Final

import msgspec

from scheduler.core import bounds
from scheduler.core.timing import LEASE_DEFAULT_MS


class QueueSettings(msgspec.Struct, frozen=True):
    """What one queue, or each queue of a pattern, is given. Times in milliseconds."""

    pool: str = "default"
    lease_ms: int = LEASE_DEFAULT_MS
    timeout_max_ms: int = bounds.QUEUE_TIMEOUT_DEFAULT_MS
    payload_max_bytes: int = bounds.PAYLOAD_MAX_BYTES
    keep_succeeded_ms: int = bounds.HOUR_MS
    keep_cancelled_ms: int = bounds.DAY_MS
    keep_failed_ms: int = 30 * bounds.DAY_MS
    keep_keys_ms: int = bounds.DAY_MS
    emits: frozenset[str] = frozenset()  # topics that completions may publish to


DEFAULT_QUEUE: Final = QueueSettings()


class Settings:
    """Settings by queue. An exact name wins over patterns; of those the longest, then the first given."""

    def __init__(self, queues: dict[str, QueueSettings] | None = None) -> None:
        """Take `queues` by name or pattern (`webhooks/*`)."""
        given = queues or {}
        self._exact = {name: of for name, of in given.items() if "*" not in name}
        self._patterns = sorted(
            ((p, of) for p, of in given.items() if "*" in p), key=lambda entry: -len(entry[0])
        )
        self._found: dict[str, QueueSettings] = {}

    def queue(self, name: str) -> QueueSettings:
        """Return the settings of the queue `name`."""
        found = self._found.get(name)
        if found is None:
            found = self._find(name)
            if len(self._found) >= _CACHED_MAX:
                self._found.clear()
            self._found[name] = found
        return found

    def pools(self) -> frozenset[str]:
        """Return every pool that some queue is sent to."""
        queues = [*self._exact.values(), *(of for _, of in self._patterns), DEFAULT_QUEUE]
        return frozenset(of.pool for of in queues)

    def emits(self) -> frozenset[str]:
        """Return every topic that some queue may emit to."""
        return frozenset().union(
            *(of.emits for of in [*self._exact.values(), *(of for _, of in self._patterns)])
        )

    def _find(self, name: str) -> QueueSettings:
        if name in self._exact:
            return self._exact[name]
        return next((of for pattern, of in self._patterns if fnmatchcase(name, pattern)), DEFAULT_QUEUE)


_CACHED_MAX: Final = 10_000  # queue names are free, so the look-up cache is bounded
