"""The children of one worker: started ahead, given runs, replaced when they die or have done enough."""

import logging
import selectors
from collections import deque
from typing import Final

import msgspec

from scheduler.worker import processes
from scheduler.worker.actions import GuardRun, StartRun, StopReason
from scheduler.worker.children import Child, Stage
from scheduler.worker.deadlines import ROWS, DeadlineTable
from scheduler.worker.offers import NEVER
from scheduler.worker.wire import (
    Begin,
    Broken,
    Extend,
    Finished,
    Progress,
    Ready,
    Save,
    Saved,
    Shield,
    Stop,
    TypeInfo,
    Up,
)

LOG: Final = logging.getLogger("scheduler.worker")
MEMORY_EVERY_MS: Final = 200
RESTART_MIN_MS: Final = 500
RESTART_MAX_MS: Final = 30_000


class CrewConfig(msgspec.Struct, frozen=True):
    """What children run. `executor` may be `auto`; `jobs_per_child` 0 means no bound."""

    target: str  # MODULE:APP
    slots: int
    executor: str = "auto"
    jobs_per_child: int = 0


class Began(msgspec.Struct, frozen=True):
    """A child has got the run."""

    run: int


class Gone(msgspec.Struct, frozen=True):
    """The child of these runs is dead, with its whole process group."""

    runs: tuple[int, ...]
    detail: str


class OverMemory(msgspec.Struct, frozen=True):
    """The child of this run holds more memory than the job's type may."""

    run: int
    detail: str


CrewEvent = Began | Gone | OverMemory | Finished | Save | Progress | Shield


class Crew:
    """All children. What happens to runs is returned by `attend`; nothing here waits."""

    def __init__(self, config: CrewConfig, selector: selectors.BaseSelector, table: DeadlineTable) -> None:
        """Begin without a child."""
        self._config = config
        self._selector = selector
        self._table = table
        self._children: list[Child] = []
        self._of_run: dict[int, Child] = {}
        self._pending: dict[int, StartRun] = {}  # no child has got them yet
        self._waiting: deque[int] = deque()  # for any child
        self._woken: set[Child] = set()
        self._events: list[CrewEvent] = []
        self._rows = list(range(1, min(4 * config.slots + 64, ROWS)))
        self._restart_ms = 0
        self._pause_ms = RESTART_MIN_MS
        self._memory_ms = 0
        self._closing = False
        self._short = True  # children may have to be started
        self.first: Ready | Broken | None = None

    # -- state -------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """How many runs the children that serve can hold."""
        return sum(self._room(child) for child in self._children if self._serves_all(child))

    @property
    def empty(self) -> bool:
        """Whether no child is left."""
        return not self._children

    def next_ms(self, now_ms: int) -> int:
        """Return when `attend` is due next, though nothing wakes it."""
        due = [NEVER]
        due += [now_ms + child.poll_ms for child in self._children if child.poll_ms]
        due += [child.exit_by_ms for child in self._children if child.exit_by_ms is not None]
        if self._short:
            due.append(self._restart_ms)
        if any(self._bound(child) for child in self._children):
            due.append(self._memory_ms)
        return min(due)

    # -- what the parent wants ------------------------------------------------------------------------

    def start(self, run: StartRun, now_ms: int) -> None:
        """Hand a run to a child; it waits while there is none for it."""
        self._pending[run.run] = run
        if self._needs_own_child(run):
            child = self._spawn()
            child.only_run = run.run
            self._of_run[run.run] = child
        else:
            self._waiting.append(run.run)
            self._hand_out(now_ms)

    def kill(self, run: int) -> None:
        """Kill what runs it. `Gone` follows, also for a run that never began or has just ended."""
        child = self._of_run.get(run)
        if child is not None:
            child.kill()
            self._short = True
            return
        if self._pending.pop(run, None) is not None:
            self._waiting.remove(run)
        self._events.append(Gone((run,), "nothing runs it"))

    def stop(self, run: int, reason: StopReason, until_ms: int) -> None:
        """Ask a handler to leave."""
        child = self._of_run.get(run)
        if child is not None:
            child.send(Stop(run, reason, until_ms))

    def guard(self, extended: GuardRun) -> None:
        """Move a run's deadline."""
        pending = self._pending.get(extended.run)
        if pending is not None:
            self._pending[extended.run] = msgspec.structs.replace(pending, deadline_ms=extended.deadline_ms)
            return
        child = self._of_run.get(extended.run)
        if child is not None and extended.run in child.deadlines:
            child.set_deadline(extended.run, extended.deadline_ms)
            child.send(Extend(extended.run, extended.deadline_ms))

    def saved(self, run: int, number: int, error: str) -> None:
        """Tell a handler what became of its checkpoint."""
        child = self._of_run.get(run)
        if child is not None:
            child.send(Saved(run, number, error))

    def close(self, now_ms: int) -> None:
        """Start no more children; let those there are exit."""
        self._closing = True
        for child in self._children:
            child.retire(now_ms)

    def kill_all(self) -> None:
        """Kill every child."""
        self._closing = True
        for child in self._children:
            child.kill()

    # -- what happens -----------------------------------------------------------------------------------

    def attend(self, now_ms: int) -> list[CrewEvent]:
        """See to the children; return what happened to runs, in order."""
        woken = set(self._woken)
        self._woken.clear()
        for child in list(self._children):
            if child in woken or child.poll_ms:
                self._attend(child, now_ms)
            elif child.exit_by_ms is not None and now_ms >= child.exit_by_ms:
                child.exit_by_ms = NEVER
                child.kill()
        self._restart(now_ms)
        self._hand_out(now_ms)
        self._watch_memory(now_ms)
        return self.take()

    def take(self) -> list[CrewEvent]:
        """Return what happened to runs since the last call, without seeing to the children."""
        events, self._events = self._events, []
        return events

    def _attend(self, child: Child, now_ms: int) -> None:
        for message in child.take():
            self._hear(child, message, now_ms)
        ended = child.reap(now_ms)
        if ended is not None:
            self._bury(child, ended, now_ms)

    def _hear(self, child: Child, message: Up, now_ms: int) -> None:
        if isinstance(message, Ready):
            self._ready(child, message, now_ms)
        elif isinstance(message, Broken):
            child.broken = message.why
            self.first = self.first or message
        elif message.run in child.deadlines:
            self._events.append(message)
            if isinstance(message, Finished):
                self._finished(child, message.run, now_ms)

    def _ready(self, child: Child, ready: Ready, now_ms: int) -> None:
        if self.first is None:
            self.first = ready
            self._short = True
        if isinstance(self.first, Ready) and not self.first.types.keys() <= ready.types.keys():
            child.broken = "the application has changed; the worker must be started anew"
            child.kill()
            return
        if child.stage is Stage.STARTING:
            child.stage = Stage.SERVING
            self._pause_ms = RESTART_MIN_MS
        if child.replaces is not None:
            child.replaces.retire(now_ms)
            child.replaces = None
        if child.only_run is not None and child.stage is Stage.SERVING:
            self._begin(child, child.only_run, now_ms)

    def _finished(self, child: Child, run: int, now_ms: int) -> None:
        child.forget(run)
        if (
            child.stage is not Stage.DYING
        ):  # `Gone` follows each kill, also that of a run that ended just before it
            self._of_run.pop(run, None)
        if child.only_run is not None or child.stage is Stage.RETIRING:
            child.retire(now_ms)

    def _bury(self, child: Child, ended: str, now_ms: int) -> None:
        self._children.remove(child)
        self._short = True
        self._rows.append(child.row)
        for heir in self._children:
            if heir.replaces is child:
                heir.replaces = None
        runs = {run for run, theirs in self._of_run.items() if theirs is child}
        for run in runs:
            del self._of_run[run]
            self._pending.pop(run, None)
        if runs:
            self._events.append(Gone(tuple(sorted(runs)), ended))
        served = child.begun > 0 or child.exit_by_ms is not None
        if not served and not self._closing:
            LOG.warning(
                "a child could not start (%s); next try in %d ms\n%s", ended, self._pause_ms, child.broken
            )
            self._restart_ms = now_ms + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, RESTART_MAX_MS)
        elif runs:
            LOG.warning("a child ended under %d of its runs: %s", len(runs), ended)

    # -- children ---------------------------------------------------------------------------------------

    def _shared(self) -> bool:
        return isinstance(self.first, Ready) and self.first.executor != "process"

    def _room(self, child: Child) -> int:
        return self._config.slots if self._shared() else 1

    def _serves_all(self, child: Child) -> bool:
        return child.stage is Stage.SERVING and child.only_run is None

    def _missing(self) -> int:
        """Return how many children have to be started."""
        if self._closing or isinstance(self.first, Broken):
            return 0
        wanted = 1 if self.first is None or self._shared() else self._config.slots
        stages = (Stage.STARTING, Stage.SERVING)
        there = [c for c in self._children if c.stage in stages and c.only_run is None and c.replaces is None]
        return wanted - len(there)

    def _restart(self, now_ms: int) -> None:
        if not self._short or now_ms < self._restart_ms:
            return
        for _ in range(self._missing()):
            self._spawn()
        self._short = False

    def _spawn(self) -> Child:
        executor = self.first.executor if isinstance(self.first, Ready) else self._config.executor
        arguments = (self._config.target, executor, str(self._config.slots))
        child = Child(self._selector, self._table, self._rows.pop(), arguments, self._woken.add)
        self._children.append(child)
        return child

    def _needs_own_child(self, run: StartRun) -> bool:
        """A child of many jobs is not for one that may take it down, or whose memory has to be told apart."""
        return self._shared() and (run.lease.suspect or self._type(run).memory_bytes > 0)

    def _type(self, run: StartRun) -> TypeInfo:
        return (
            self.first.types.get(run.spec.type, TypeInfo()) if isinstance(self.first, Ready) else TypeInfo()
        )

    # -- runs ---------------------------------------------------------------------------------------------

    def _hand_out(self, now_ms: int) -> None:
        while self._waiting:
            child = self._free_child()
            if child is None:
                return
            self._begin(child, self._waiting.popleft(), now_ms)

    def _free_child(self) -> Child | None:
        """Return the free child that served last: its caches are warm."""
        free = [c for c in self._children if self._serves_all(c) and len(c.deadlines) < self._room(c)]
        return max(free, key=lambda child: child.last_begun_ms, default=None)

    def _begin(self, child: Child, run: int, now_ms: int) -> None:
        start = self._pending.pop(run)
        lease = start.lease
        self._of_run[start.run] = child
        child.bound_bytes = self._type(start).memory_bytes
        child.begun += 1
        child.last_begun_ms = now_ms
        # The guard first: were the parent stopped between the two, nobody would end a run it had just begun.
        child.set_deadline(start.run, start.deadline_ms)
        child.send(
            Begin(
                start.run,
                start.spec,
                lease.attempt,
                lease.max_attempts,
                lease.epoch,
                lease.checkpoint,
                now_ms + lease.timeout_ms,
                start.deadline_ms,
            )
        )
        self._events.append(Began(start.run))
        self._replace_if_worn(child, now_ms)

    def _replace_if_worn(self, child: Child, now_ms: int) -> None:
        """Start the heir of a child that has done enough; it serves on until the heir is ready."""
        worn = 0 < self._config.jobs_per_child <= child.begun and child.only_run is None
        if worn and now_ms >= self._restart_ms and not any(heir.replaces is child for heir in self._children):
            self._spawn().replaces = child

    # -- memory -------------------------------------------------------------------------------------------

    def _bound(self, child: Child) -> int:
        return child.bound_bytes if child.deadlines and child.stage is not Stage.DYING else 0

    def _watch_memory(self, now_ms: int) -> None:
        bounded = [child for child in self._children if self._bound(child)]
        if not bounded or now_ms < self._memory_ms:
            return
        self._memory_ms = now_ms + MEMORY_EVERY_MS
        held = processes.memory_bytes({child.group for child in bounded})
        for child in bounded:
            used = held.get(child.group, 0)
            if used > self._bound(child):
                detail = f"{_size(used)} used, {_size(self._bound(child))} allowed"
                self._events += [OverMemory(run, detail) for run in child.deadlines]


def _size(count: int) -> str:
    return f"{count / 1_000_000:,.0f} MB"
