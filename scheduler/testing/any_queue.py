"""Queue settings of the scheduler in memory: it knows no `settings.yaml`, so every queue allows what any may."""

from typing import Self

from scheduler.core import bounds
from scheduler.core.settings import QueueSettings, Settings


class ForeignTopics(frozenset[str]):
    """Every topic but the scheduler's own."""

    _prefix: str

    def __new__(cls, prefix: str) -> Self:
        """Take the prefix of the scheduler's own topics."""
        topics = super().__new__(cls)
        topics._prefix = prefix
        return topics

    def __contains__(self, topic: object) -> bool:
        """Say whether a completion may publish to `topic`."""
        return isinstance(topic, str) and not topic.startswith(self._prefix)


def settings_of_any_queue(prefix: str) -> Settings:
    """Return settings under which every queue takes the longest timeout and emits to every foreign topic."""
    widest = QueueSettings(timeout_max_ms=bounds.TIMEOUT_MAX_MS, emits=ForeignTopics(prefix))
    return Settings({"*": widest})
