"""The runs of one child, and how what the parent says reaches them."""

import threading
from collections.abc import Callable

from scheduler.core.reports import Verdict
from scheduler.worker.actions import Failed, Outcome
from scheduler.worker.liverun import LiveRun
from scheduler.worker.performing import error_info
from scheduler.worker.upstream import Upstream
from scheduler.worker.wire import Begin, Down, Exit, Extend, Finished, Saved, Stop


class LiveRuns:
    """Runs by number. Messages come in on the reading thread; handlers end on theirs."""

    def __init__(
        self, upstream: Upstream, begin: Callable[[LiveRun], None], close: Callable[[], None]
    ) -> None:
        """`begin` starts a run and returns at once; `close` is called when nothing more will come."""
        self._upstream = upstream
        self._begin = begin
        self._close = close
        self._runs: dict[int, LiveRun] = {}
        self._lock = threading.Lock()
        self.changed: Callable[[LiveRun], None] = lambda _: None  # a run's end was moved

    def hear(self, message: Down) -> None:
        """Take what the parent says."""
        if isinstance(message, Begin):
            live = LiveRun(message, self._upstream)
            with self._lock:
                self._runs[message.run] = live
            self._begin(live)
        elif isinstance(message, Exit):
            self._close()
        else:
            live_or_none = self._runs.get(message.run)
            if live_or_none is not None:
                self._pass_on(live_or_none, message)

    def finish(self, live: LiveRun, outcome: Outcome) -> None:
        """Report the end of a run."""
        with self._lock:
            self._runs.pop(live.begin.run, None)
        run = live.begin.run
        try:
            self._upstream.send(Finished(run, outcome))
        except (ValueError, OverflowError) as error:  # a lone surrogate in what it emits, for one
            self._upstream.send(Finished(run, Failed(Verdict.FAIL, error_info(error))))

    def pulse(self) -> bool:
        """Tell progress that waits; return whether anything runs."""
        with self._lock:
            runs = list(self._runs.values())
        for live in runs:
            live.tell_progress()
        return bool(runs)

    def _pass_on(self, live: LiveRun, message: Extend | Stop | Saved) -> None:
        if isinstance(message, Saved):
            live.on_saved(message)
            return
        if isinstance(message, Stop):
            live.on_stop(message)
        else:
            live.on_extend(message.deadline_ms)
        self.changed(live)
