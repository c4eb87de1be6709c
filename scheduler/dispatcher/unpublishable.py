"""What runs emitted and can't be published: the completion then fails its job, and stops nobody else.

A refused record is blamed on its job. A topic that takes nothing, though it is there (no leader, too few replicas
in sync), refuses nothing either: each transaction with a record for it times out, and holds up all shards. After
two of these in a row it is shut for a while. One may be a broker that has just died, whose successor takes over
within those two.
"""

from typing import Final

from scheduler.core import bounds
from scheduler.core.reports import Done

SHUT_MS: Final = 5 * bounds.MINUTE_MS
IN_A_ROW_MS: Final = 2 * SHUT_MS
"""Time-outs no farther apart than this count as one after the other: so once it was shut, one more is enough."""


class Unpublishable:
    """Jobs and topics at fault. Topics are those that queues may emit to, so there are not many."""

    def __init__(self) -> None:
        """Begin with none."""
        self.jobs: set[str] = set()  # a record that they emitted was refused
        self._timed_out_ms: dict[str, int] = {}
        self._shut_until_ms: dict[str, int] = {}

    def timed_out(self, topic: str, mono_ms: int) -> None:
        """Say that a transaction failed by this topic alone."""
        before_ms = self._timed_out_ms.get(topic)
        self._timed_out_ms[topic] = mono_ms
        if before_ms is not None and mono_ms - before_ms <= IN_A_ROW_MS:
            self._shut_until_ms[topic] = mono_ms + SHUT_MS

    def why(self, done: Done, mono_ms: int) -> str:
        """Return why what this completion emits can't be published; nothing if it can be tried."""
        if done.job_id in self.jobs:
            self.jobs.discard(done.job_id)
            return "the broker refused a record that the run emitted"
        shut = sorted({emit.topic for emit in done.emits if self._is_shut(emit.topic, mono_ms)})
        return f"no records could be written to {', '.join(shut)} for a while" if shut else ""

    def _is_shut(self, topic: str, mono_ms: int) -> bool:
        return mono_ms < self._shut_until_ms.get(topic, mono_ms)
