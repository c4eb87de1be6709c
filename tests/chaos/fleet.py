"""The processes of a run: dispatchers, workers and the load, each started again whenever it ends."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil

from scheduler.bench.site import Process, Site
from tests.chaos.app import FOLDER
from tests.chaos.small_disk import NoSmallDiskError, mount, unmount

SLOTS: Final = 4
LOOK_S: Final = 0.2
ABORT_S: Final = 10.0
RESTART_S: Final = 1.0
"""So long after its end a process that nobody killed is started again."""

DIED: Final = "Fatal Python error"
DIED_CHARS: Final = 300

SETTINGS: Final = """
queues:
  chaos: {lease: 10s}
"""


class Load(Process):
    """The process that submits."""

    module = "tests.chaos.load"


class Member:
    """One process, under whatever number it runs just now. `turn` is held by the fault that befalls it."""

    def __init__(self, name: str, start: Callable[[], Process], state: Path | None = None) -> None:
        self.name = name
        self.state = state  # where a dispatcher keeps its local state
        self.turn = threading.Lock()
        self.exits: list[str] = []  # how it ended by itself, and the last that it said
        self._ended = False
        self._start = start
        self._process = start()

    @property
    def alive(self) -> bool:
        return self._process.alive()

    @property
    def ready(self) -> bool:
        return self._process.ready()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stopped_by_others(self) -> bool:
        """Whether somebody holds it still (SIGSTOP), and no fault of ours does."""
        if self.turn.locked():
            return False
        return any(_status(process) == psutil.STATUS_STOPPED for process in self.tree()[:1])

    def start(self) -> None:
        """Start it, unless it runs."""
        if not self.alive:
            self._process = self._start()

    def restart_ended(self) -> None:
        """Start it again if it has ended by itself: whoever kills one holds its turn."""
        if self._ended or self.alive or not self.turn.acquire(blocking=False):
            return
        try:
            if not self.alive:
                self.exits.append(self._last_words())
                time.sleep(RESTART_S)
                self.start()
        finally:
            self.turn.release()

    def kill(self) -> None:
        """SIGKILL. What it started goes by its own means, which is part of what is tested."""
        self._process.kill()

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self._process.stop()

    def end(self) -> None:
        """Stop it, and start it no more."""
        self._ended = True
        self.stop()

    def tree(self) -> list[psutil.Process]:
        """Return the process and all that it started, itself first."""
        try:
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def guard(self) -> list[psutil.Process]:
        """Return a worker's guard, if it has one just now."""
        return [each for each in self.tree() if _runs(each, "scheduler.worker.guard")]

    def children(self) -> list[psutil.Process]:
        """Return the processes that run a worker's handlers."""
        return [each for each in self.tree() if _runs(each, "scheduler.worker.child")]

    def _last_words(self) -> str:
        said = self._process.log.read_text(errors="replace")
        died = said.rfind(DIED)  # what follows tells what each thread did
        words = said[max(0, died - DIED_CHARS) :][: 10 * DIED_CHARS] if died >= 0 else said[-DIED_CHARS:]
        return f"exit {self._process.stop()}: {words.strip()}"


class Fleet:
    """All members, and the thread that looks after them."""

    def __init__(self, site: Site, *, dispatchers: int, workers: int, rate: float, seed: int) -> None:
        self._site = site
        self._over = threading.Event()
        for folder in ("runs", "claims", "receipts"):
            (site.folder / folder).mkdir()
        self._settings = site.folder / "settings.yaml"
        self._settings.write_text(SETTINGS)
        self.left_out: list[str] = []
        has_small_disk = self._mount(site.folder / "dispatcher-1")
        self.dispatchers = [self._dispatcher(f"dispatcher-{n}") for n in range(1, dispatchers + 1)]
        self.workers = [self._worker(f"worker-{n}") for n in range(1, workers + 1)]
        self.small_disk = self.dispatchers[0] if has_small_disk else None
        self.load = Member("load", lambda: self._load(rate, seed))
        self._looking = threading.Thread(target=self._look_after, name="fleet", daemon=True)
        self._looking.start()

    @property
    def members(self) -> Sequence[Member]:
        return [*self.dispatchers, *self.workers, self.load]

    def exits(self) -> dict[str, list[str]]:
        """Return how members ended by themselves."""
        return {member.name: member.exits for member in self.members if member.exits}

    @property
    def stopped_by_others(self) -> bool:
        """Whether somebody holds some of it still: no time to judge by."""
        return any(member.stopped_by_others for member in self.members)

    def heal(self) -> None:
        """Have every member run."""
        for member in self.members:
            with member.turn:
                for process in member.tree():
                    send(process, signal.SIGCONT)
                member.start()

    def say_where_they_are(self) -> None:
        """Have every dispatcher write into its log what each of its threads does, and end."""
        for dispatcher in self.dispatchers:
            with dispatcher.turn:
                for process in dispatcher.tree()[:1]:
                    send(process, signal.SIGABRT)
                    process.wait(ABORT_S)

    def close(self) -> None:
        """Look after them no longer; the site stops them."""
        self._over.set()
        self._looking.join()
        if self.small_disk is not None:
            assert self.small_disk.state is not None
            self.small_disk.stop()
            unmount(self.small_disk.state)

    def _mount(self, folder: Path) -> bool:
        try:
            mount(folder)
        except NoSmallDiskError as error:
            self.left_out.append(f"full disk: {error}")
            return False
        return True

    def _look_after(self) -> None:
        while not self._over.wait(LOOK_S):
            for member in self.members:
                member.restart_ended()

    def _dispatcher(self, name: str) -> Member:
        environ = {"KAFKA_CLIENT_ID": name, "PYTHONFAULTHANDLER": "1"}
        return Member(
            name,
            lambda: self._site.dispatcher(name, settings=self._settings, environ=environ),
            self._site.folder / name,
        )

    def _worker(self, name: str) -> Member:
        environ = {**self._environ(), "KAFKA_CLIENT_ID": name}
        return Member(
            name, lambda: self._site.worker(name, "tests.chaos.app:app", slots=SLOTS, environ=environ)
        )

    def _load(self, rate: float, seed: int) -> Process:
        site = self._site
        environ = {
            **self._environ(),
            "KAFKA_CLIENT_ID": "load",
            "KAFKA_BOOTSTRAP_SERVERS": site.properties["bootstrap.servers"],
            "JOBS_PREFIX": site.prefix,
        }
        process = Load("load", [str(rate), str(seed)], environ, site.folder / "load.log")
        site.processes.append(process)
        return process

    def _environ(self) -> dict[str, str]:
        return {FOLDER: str(self._site.folder), "PYTHONPATH": str(Path.cwd())}


@contextlib.contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Hold processes still inside the block (SIGSTOP)."""
    for process in processes:
        send(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            send(process, signal.SIGCONT)


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal; nothing happens if the process is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
