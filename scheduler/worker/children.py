"""One child process of a worker, as its parent holds it."""

import os
import selectors
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from scheduler.worker import processes
from scheduler.worker.channel import Channel, ChannelBrokenError
from scheduler.worker.deadlines import DeadlineTable
from scheduler.worker.wire import Down, Exit, Up

EXIT_MS: Final = 5_000
"""How long a child may take to close its lifespans."""

GROUP_WAIT_MS: Final = 1_000
"""How long killed grandchildren may take to go: longer only if the system itself is stuck in them."""


GROUP_POLL_MS: Final = 5
EXIT_POLL_MS: Final = 50


TAKEN_AT_ONCE: Final = 1_000


class Stage(Enum):
    """What a child is good for."""

    STARTING = auto()  # it imports the application
    SERVING = auto()  # it takes runs
    RETIRING = auto()  # it finishes what it has, then exits
    DYING = auto()  # it was killed, or is to be: it closed its end, or it died
    GONE = auto()  # nothing of its group runs any more


class Child:
    """A process group and what runs in it. `deadlines` are those of its runs, by number."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        table: DeadlineTable,
        row: int,
        arguments: tuple[str, ...],
        wake: Callable[["Child"], None],
    ) -> None:
        """Start it; `wake` is called when `attend` has something to do."""
        self.row = row
        self.stage = Stage.STARTING
        self.broken = ""  # why it can't serve
        self.deadlines: dict[int, int] = {}
        self.begun = 0  # runs so far
        self.last_begun_ms = 0
        self.bound_bytes = 0  # what its run may hold in memory, 0 for no bound
        self.replaces: Child | None = None  # which it lets retire
        self.only_run: int | None = None  # the one run it was started for
        self.exit_by_ms: int | None = None  # when it is killed if it has not exited
        self._exit_seen = False
        self._ended: str | None = None  # how its leader ended
        self._give_up_ms = 0
        self._selector = selector
        self._wake = wake
        self._table = table
        self._process, ours = processes.spawn_connected("scheduler.worker.child", *arguments)
        self.group = self._process.pid
        table.enter(row, self.group)
        self._channel: Channel | None = Channel(selector, ours, lambda: wake(self))
        self._exit_fd = processes.exit_fd(self.group)
        if self._exit_fd is not None:
            selector.register(self._exit_fd, selectors.EVENT_READ, self._on_exit)

    def _on_exit(self) -> None:
        self._exit_seen = True
        self._wake(self)

    def send(self, message: Down) -> None:
        """Send a message; a child that can't take it is killed."""
        if self._channel is None:
            return
        try:
            self._channel.send(message)
        except ChannelBrokenError:
            self.kill()

    def take(self) -> list[Up]:
        """Return what it said since the last call; one that stopped speaking is killed.

        Of one that never stops speaking only a part is taken at a time, for the others' sake; of one that has
        ended everything is: a completion that it still told counts.
        """
        said: list[Up] = []
        while self._channel is not None and (self._exit_seen or len(said) < TAKEN_AT_ONCE):
            try:
                more = self._channel.pump()
            except ChannelBrokenError:
                self._hang_up()
                self.kill()
                break
            if not more:
                break
            said += more
        return said

    def set_deadline(self, run: int, deadline_ms: int) -> None:
        """Let a run go on until then; the guard is told the first of all."""
        self.deadlines[run] = deadline_ms
        self._tell_guard()

    def forget(self, run: int) -> None:
        """Say that a run ended."""
        self.deadlines.pop(run, None)
        self._tell_guard()

    def retire(self, now_ms: int) -> None:
        """Give it nothing more; it exits once its runs have ended."""
        if self.stage in (Stage.STARTING, Stage.SERVING):
            self.stage = Stage.RETIRING
        if self.stage is Stage.RETIRING and not self.deadlines and self.exit_by_ms is None:
            self.exit_by_ms = now_ms + EXIT_MS
            self.send(Exit())

    def kill(self) -> None:
        """Kill its process group."""
        if self.stage is not Stage.GONE:
            self.stage = Stage.DYING
            processes.kill_group(self.group)

    def reap(self, now_ms: int) -> str | None:
        """Bury it if it has ended: return how, once nothing of its group runs any more; None until then.

        The order matters. While the leader is an unreaped zombie nobody else can get its number, so until then
        the guard's row is freed and the rest of the group killed. And only when the whole group is gone may
        its jobs run elsewhere.
        """
        if self._ended is None:
            may_have_ended = self._exit_seen or self._exit_fd is None
            if not may_have_ended or not processes.has_ended(self.group):
                return None
            self._table.leave(self.row)
            processes.kill_group(self.group)
            self._ended = processes.exit_text(self._process.wait())
            self._give_up_ms = now_ms + GROUP_WAIT_MS
            self.stage = Stage.DYING
            self._close_exit_fd()
        if processes.group_lives(self.group) and now_ms < self._give_up_ms:
            return None
        self._hang_up()
        self.stage = Stage.GONE
        return self._ended

    @property
    def poll_ms(self) -> int:
        """How often `reap` must be tried since nothing wakes us up for it; 0 if something does."""
        if self._ended is not None:
            return GROUP_POLL_MS
        return 0 if self._exit_fd is not None else EXIT_POLL_MS

    def _tell_guard(self) -> None:
        if self._ended is None:
            self._table.set_deadline(self.row, min(self.deadlines.values(), default=0))

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _close_exit_fd(self) -> None:
        if self._exit_fd is not None:
            self._selector.unregister(self._exit_fd)
            os.close(self._exit_fd)
            self._exit_fd = None
