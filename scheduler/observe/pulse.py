"""Whether a thread still gets on: a watchman of its own looks, so that one that is stuck for good can't go unseen."""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

STUCK_TICKS: Final = 300
"""In seconds as long as the group waits for a member that does not poll: its shards are others' by then.

A turn may take two minutes while brokers come and go: 50 s until a step of its transaction is given up, 15 s for the
abort, and a minute more if the coordinator has lost markers (`kafka.lost_markers`).
"""


class Pulse:
    """Counts what a thread does; made by that thread.

    Ticks of the watchman are counted, not time: a process that was suspended is not stuck for it.
    """

    def __init__(self, stuck_ticks: int = STUCK_TICKS) -> None:
        """Begin to count for the calling thread."""
        self._beats = 0
        self._stuck_ticks = stuck_ticks
        self._thread = threading.get_ident()
        self._over = threading.Event()

    def beat(self) -> None:
        """Say that it got on."""
        self._beats += 1

    def watch(self, on_stuck: Callable[[str], None], tick_s: float) -> None:
        """Have `on_stuck` called, with where the thread stands, when it has not got on for so many ticks."""
        threading.Thread(
            target=self._look_on, args=(on_stuck, tick_s), name="jobs-pulse", daemon=True
        ).start()

    def end(self) -> None:
        """Look no more: it is done."""
        self._over.set()

    def _look_on(self, on_stuck: Callable[[str], None], tick_s: float) -> None:
        seen, ticks = self._beats, 0
        while not self._over.wait(tick_s):
            seen, ticks = self._beats, ticks + 1 if seen == self._beats else 0
            if ticks >= self._stuck_ticks:
                on_stuck(self._where())
                return

    def _where(self) -> str:
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the documented way to another thread's stack
        return "".join(traceback.format_stack(frame)) if frame is not None else "its thread has ended"
