"""Real worker processes, with the test in the place of Kafka and of the dispatcher."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from scheduler.codec.job import encode_job
from scheduler.core.notices import Lease, Notice, Revoke
from scheduler.core.reports import Beat, Done, Fail, Offer, Release, Report
from scheduler.core.spec import JobSpec
from scheduler.core.timing import Timing
from scheduler.worker.parent import ParentConfig
from scheduler.worker.ports import Delivered, Joined, Received

HERE = Path(__file__).parent
BOOT_ID = b"boot" * 4
PATIENCE_S = 20.0
T = TypeVar("T")


def eventually(look: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """Return the first true value of `look`; fail after `patience_s`."""
    until_s = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < until_s, f"no {what} within {patience_s} s"
        time.sleep(0.005)
    return found


class Worker:
    """One worker process. Reports are acknowledged at once while `acks` is true."""

    def __init__(self, process: subprocess.Popen[str], connection: Connection, config: ParentConfig) -> None:
        self.process = process
        self.config = config
        self.reports: list[Report] = []
        self.partitions: list[int] = []
        self.unacked: list[int] = []
        self.acks = True
        self._connection = connection
        self._epochs = itertools.count(1)
        self._seen = 0
        self._used: dict[int, int] = {}
        _, self.pool, self.boot_id = connection.recv()
        connection.send(Joined(inbox=3, shards=8))

    def pump(self, wait_s: float = 0.0) -> None:
        """Take what the worker has sent."""
        while self._connection.poll(wait_s):
            wait_s = 0.0
            try:
                ticket, partition, report = self._connection.recv()
            except (EOFError, OSError):
                return
            self.reports.append(report)
            self.partitions.append(partition)
            if self.acks:
                self.ack(ticket)
            else:
                self.unacked.append(ticket)

    def ack(self, ticket: int) -> None:
        try:
            self._connection.send(Delivered(ticket))
        except OSError:
            pass

    def ack_all(self) -> None:
        self.acks = True
        for ticket in self.unacked:
            self.ack(ticket)
        self.unacked.clear()

    def send(self, notice: Notice) -> None:
        self._connection.send(Received(notice))

    def lease(self, type_: str, payload: dict[str, Any] | None = None, **fields: Any) -> Lease:
        """Lease a job to a slot that the worker offers; wait for one."""
        epoch = next(self._epochs)
        timeout_ms = fields.pop("timeout_ms", 60_000)
        job_id = fields.pop("job_id", f"job-{epoch}")
        body = msgspec.json.encode(payload or {})
        spec = JobSpec(job_id, "acme", "default", type_, body, timeout_ms=timeout_ms)
        lease = Lease(
            **{
                "boot_id": BOOT_ID, "job_id": job_id, "epoch": epoch, "token": os.urandom(16), "attempt": 1,
                "offer": 0, "lease_ms": 20_000, "timeout_ms": timeout_ms, "shard": epoch % 8, "suspect": False,
                "max_attempts": 5, "checkpoint": b"", "spec": encode_job(spec), **fields,
            }
        )  # fmt: skip
        if not lease.offer:
            lease = msgspec.structs.replace(lease, offer=self.slot())
        self.send(lease)
        return lease

    def slot(self) -> int:
        """Return the sequence of an offer with a slot left; wait for one."""
        return eventually(self._slot, "offer")

    def _slot(self) -> int:
        self.pump(0.01)
        slots: dict[int, int] = {}
        for report in self.reports:
            if isinstance(report, Offer):
                slots[report.sequence] = slots.get(report.sequence, 0) + report.slots
            elif isinstance(report, Done | Fail | Release) and report.freed is not None:
                slots[report.freed.sequence] = 1
        for sequence in sorted(slots, reverse=True):
            if self._used.get(sequence, 0) < slots[sequence]:
                self._used[sequence] = self._used.get(sequence, 0) + 1
                return sequence
        return 0

    def revoke(self, lease: Lease, reason: str) -> None:
        self.send(Revoke(lease.boot_id, lease.job_id, lease.epoch, lease.token, lease.shard, reason))

    def ended(self, lease: Lease) -> list[Done | Fail | Release]:
        """Return the reports that ended a lease so far."""
        self.pump()
        return [r for r in self.reports if isinstance(r, Done | Fail | Release) and r.token == lease.token]

    def end(self, lease: Lease) -> Done | Fail | Release:
        """Wait for the one report that ends a lease."""
        found = eventually(lambda: self.pump(0.01) or self.ended(lease), f"end of {lease.job_id}")
        assert len(found) == 1
        return found[0]

    def beats(self, lease: Lease) -> list[Beat]:
        self.pump()
        held = [(r, h) for r in self.reports if isinstance(r, Beat) for h in r.leases]
        return [beat for beat, h in held if h.token == lease.token]

    def children(self) -> list[psutil.Process]:
        """Return the worker's children that run jobs."""
        return [p for p in psutil.Process(self.process.pid).children() if _runs(p, "scheduler.worker.child")]

    def guard(self) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        return next(p for p in children if _runs(p, "scheduler.worker.guard"))

    def wait(self) -> int:
        """Wait until the process has ended; return its exit code."""
        return eventually(lambda: self.pump(0.01) or self._code(), "exit") - 1_000

    def _code(self) -> int | None:
        code = self.process.poll()
        return None if code is None else code + 1_000


@contextmanager
def running(app: str = "jobs_app:app", **settings: Any) -> Iterator[Worker]:
    """Run a worker; kill whatever is left of it in the end."""
    config = ParentConfig(**{"target": app, "worker": "w", "boot_id": BOOT_ID, "slots": 2, **settings})
    with tempfile.TemporaryDirectory() as directory, Listener(f"{directory}/link", "AF_UNIX") as listener:
        process = started(config, f"{directory}/link")
        try:
            with listener.accept() as connection:
                yield Worker(process, connection, config)
        finally:
            end_all(process)


def started(config: ParentConfig, address: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(HERE / "run_parent.py"), address, msgspec.json.encode(config).decode()]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    return subprocess.Popen(arguments, cwd=HERE / "apps", env=environment, stdout=subprocess.PIPE, text=True)


def end_all(process: subprocess.Popen[str]) -> None:
    """End a worker and all that it started."""
    try:
        tree = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        tree = []
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    for left in tree:
        try:
            left.kill()
        except psutil.NoSuchProcess:
            pass


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except psutil.NoSuchProcess:  # a zombie's is none, too
        return False


def gone(pid: int) -> bool:
    """Say whether a process has ended, zombies counted as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def appears(path: Path) -> str:
    """Wait for a file that a handler makes; return what is in it."""
    return eventually(lambda: path.exists() and (path.read_text() or " "), f"file {path.name}")


FAST = Timing(
    first_ms=2_000,
    first_margin_ms=200,
    margin_min_ms=200,
    offer_life_ms=1_000,
    offer_repeat_ms=800,
    first_beat_ms=300,
)
"""The protocol at a fifth of its periods. Leases of 2 s go with it."""
