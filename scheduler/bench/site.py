"""Where a bench or the demo runs: topics of its own, and real dispatcher and worker processes on them."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from scheduler import devkafka
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout

STOP_S = 30.0


class Process:
    """A child process of the scheduler's command line."""

    module = "scheduler"
    """What it runs, as `python -m` has it."""

    def __init__(self, name: str, arguments: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        """Start `scheduler ARGUMENTS`; what it prints goes to the file `log`."""
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                [sys.executable, "-m", self.module, *arguments],
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._sight = psutil.Process(self._child.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def cpu_s(self) -> float:
        """Return the CPU time taken so far, in seconds."""
        times = self._sight.cpu_times()
        return times.user + times.system

    def rss_mb(self) -> float:
        """Return the resident memory, in MB."""
        return self._sight.memory_info().rss / 1e6

    def ready(self) -> bool:
        """Say whether it has said that it is ready."""
        return " ready: " in self.log.read_text()

    def alive(self) -> bool:
        """Say whether it runs."""
        return self._child.poll() is None

    def kill(self) -> None:
        """Send SIGKILL."""
        self._child.kill()
        self._child.wait()

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.alive():
            self._child.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Send SIGTERM and wait; SIGKILL after `STOP_S`. Return the exit code."""
        self.terminate()
        try:
            return self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._child.wait()


class Site:
    """Fresh topics on a broker, a folder for state and logs, and the processes started there."""

    def __init__(
        self, properties: Mapping[str, str], *, shards: int, prefix: str | None = None, replicas: int = 1
    ) -> None:
        """Make the topics; `prefix` is a random one unless given."""
        self.properties = dict(properties)
        self.shards = shards
        self.prefix = prefix or f"bench-{secrets.token_hex(4)}."
        apply(self.properties, Layout(shards, {"default": 64}, replicas, self.prefix))
        self._home: devkafka.OwnedDir | None = devkafka.run_dir()
        self.folder = self._home.path
        self.processes: list[Process] = []

    def dispatcher(
        self,
        name: str = "dispatcher",
        *,
        state_of: str | None = None,
        settings: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a dispatcher, with the local state that the one named `state_of` left."""
        arguments = ["dispatcher", "--name", name, "--state-dir", str(self.folder / (state_of or name))]
        if settings is not None:
            arguments += ["--settings", str(settings)]
        return self._start(name, arguments, environ)

    def worker(
        self, name: str, target: str, *, slots: int, environ: Mapping[str, str] | None = None
    ) -> Process:
        """Start a worker for `target`."""
        return self._start(name, ["worker", target, "--slots", str(slots), "--name", name], environ)

    def let_go(self) -> dict[str, int]:
        """Leave the processes that run to `scheduler dev stop`, with the folder; return their ids by name."""
        home, self._home = self._home, None
        assert home is not None
        left = self._running()
        home.leave_running()
        self.processes.clear()
        return left

    def close(self) -> None:
        """Stop every process, workers first, and remove the folder."""
        for process in reversed(self.processes):
            process.stop()
        if self._home is not None:
            self._home.remove()

    def _start(
        self, name: str, arguments: Sequence[str], environ: Mapping[str, str] | None = None
    ) -> Process:
        options = [part for key, value in self.properties.items() for part in ("-X", f"{key}={value}")]
        given = {"JOBS_PREFIX": self.prefix, **(environ or {})}
        process = Process(name, [*options, *arguments], given, self.folder / f"{name}.log")
        self.processes.append(process)
        if self._home is not None:
            self._home.note(self._running())  # whoever finds us killed ends them
        return process

    def _running(self) -> dict[str, int]:
        """Return the ids by name, last started first: a worker hands its leases back while a dispatcher listens."""
        return {process.name: process.pid for process in reversed(self.processes) if process.alive()}


@contextmanager
def site(properties: Mapping[str, str], *, shards: int = 8) -> Iterator[Site]:
    """Give a site for the length of a bench."""
    place = Site(properties, shards=shards)
    try:
        yield place
    finally:
        place.close()
