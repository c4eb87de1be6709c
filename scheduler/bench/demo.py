"""`scheduler dev --demo`: the main job from end to end on a real Kafka, with processes killed on the way."""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click
import msgspec

from scheduler import devkafka
from scheduler.bench import runlog
from scheduler.bench.demo_load import submit_all
from scheduler.bench.demo_view import Progress, table, view
from scheduler.bench.judge import Expected, Judge, Verdict
from scheduler.bench.site import Process, Site
from scheduler.bench.third_party import ThirdParty
from scheduler.codec.schemas import directory

JOBS: Final = 3_000
SHARDS: Final = 8
DISPATCHERS: Final = 2
WORKERS: Final = 4
SLOTS: Final = 4
SUBMIT_S: Final = 20.0
_READY_S: Final = 60.0
_PATIENCE_S: Final = 90.0
_KILL_WORKER_AT: Final = 0.35
_KILL_DISPATCHER_AT: Final = 0.6
_LATE_DOUBLES_S: Final = 2.0


def run_demo(*, as_json: bool, keep: bool, jobs: int | None) -> int:
    """Run the demo; return 0 if nothing was lost, completed twice or started early."""
    if keep:
        os.environ.setdefault("JOBS_DEV_KAFKA", "java")  # a broker in a container would end with this process
    with devkafka.attach_or_start(say=_say) as cluster:
        properties = {"bootstrap.servers": cluster.bootstrap}
        _say(f"Kafka at {cluster.bootstrap}; making topics")
        site = Site(properties, shards=SHARDS, prefix=f"demo-{os.getpid()}.")
        try:
            verdict = Demo(site, properties, jobs or JOBS).run()
            if as_json:
                click.echo(json.dumps(msgspec.to_builtins(verdict)))
            else:
                table(verdict)
            if keep:
                _leave_running(site, cluster)
        finally:
            site.close()
    return 0 if verdict.clean else 1


def _leave_running(site: Site, cluster: devkafka.Cluster) -> None:
    cluster.leave_running()
    left = site.let_go()
    _say(
        f"Everything goes on running, workers and dispatchers as {', '.join(map(str, left.values()))}. Next:"
    )
    _say(next_commands(site.prefix, cluster.bootstrap))


class Demo:
    """One run."""

    def __init__(self, site: Site, properties: Mapping[str, str], jobs: int) -> None:
        """Prepare the folder where handlers write down their runs."""
        self._site = site
        self._properties = properties
        self._jobs = jobs
        self._runs = site.folder / "runs"
        self._runs.mkdir()
        self._expected: dict[str, Expected] = {}
        self._submitted = 0.0
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._killed: list[str] = []
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = properties["bootstrap.servers"]  # the demo's app reads both
        os.environ["JOBS_PREFIX"] = site.prefix

    def run(self) -> Verdict:
        """Start everything, submit, kill, wait, judge."""
        site = self._site
        _say(f"starting {DISPATCHERS} dispatchers and {WORKERS} workers")
        dispatchers = [site.dispatcher(f"dispatcher-{n}") for n in range(1, DISPATCHERS + 1)]
        workers = [
            site.worker(
                f"worker-{n}",
                "scheduler.bench.demo_jobs:app",
                slots=SLOTS,
                environ={runlog.FOLDER: str(self._runs)},
            )
            for n in range(1, WORKERS + 1)
        ]
        self._wait_until_ready([*dispatchers, *workers])
        judge = Judge(self._properties, site.prefix)
        submitting = threading.Thread(target=self._submit, name="submit", daemon=True)
        submitting.start()
        try:
            with view() as show:
                self._watch(judge, submitting, dispatchers, workers, show)
        finally:
            self._over.set()
            submitting.join()  # before the broker goes: what is half sent would hold the process up
            judge.close()
        if self._failure is not None:
            raise self._failure
        missing = judge.missing_children("demo.place_order", self._expected)
        return judge.verdict(self._expected, missing, self._runs)

    def _wait_until_ready(self, processes: list[Process]) -> None:
        deadline = time.monotonic() + _READY_S
        while not all(process.ready() for process in processes):
            self._check_alive(processes)
            if time.monotonic() > deadline:
                raise click.ClickException(f"not ready within {_READY_S:.0f} s: see {self._site.folder}")
            time.sleep(0.05)

    def _check_alive(self, processes: list[Process]) -> None:
        """Raise if a process died that nobody killed."""
        for process in processes:
            if not process.alive() and process.name not in self._killed:
                said = process.log.read_text()[-2_000:]
                raise click.ClickException(f"{process.name} died; it said:\n{said}")

    def _submit(self) -> None:
        try:
            third_party = ThirdParty(
                self._properties, f"{self._site.prefix}submit.default", directory() / "JobV1.avsc"
            )
            for share in submit_all(self._jobs, third_party, SUBMIT_S, self._expected):
                self._submitted = share
                if self._over.is_set():
                    break
            third_party.flush()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self._failure = error

    def _watch(
        self,
        judge: Judge,
        submitting: threading.Thread,
        dispatchers: list[Process],
        workers: list[Process],
        show: Callable[[Progress], None],
    ) -> None:
        deadline = time.monotonic() + SUBMIT_S + _PATIENCE_S
        quiet_since: float | None = None
        while time.monotonic() < deadline and self._failure is None:
            judge.follow(0.2)
            self._kill_when_due(dispatchers, workers)
            self._check_alive([*dispatchers, *workers])
            show(self._progress(judge))
            if submitting.is_alive() or self._left(judge):
                quiet_since = None
            elif quiet_since is None:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > _LATE_DOUBLES_S:
                return  # a second completion would have shown by now

    def _left(self, judge: Judge) -> int:
        return judge.unfinished(dict(self._expected)) + judge.missing_children(
            "demo.place_order", self._expected
        )

    def _kill_when_due(self, dispatchers: list[Process], workers: list[Process]) -> None:
        for share, victim in ((_KILL_WORKER_AT, workers[0]), (_KILL_DISPATCHER_AT, dispatchers[0])):
            if self._submitted >= share and victim.name not in self._killed:
                self._killed.append(victim.name)
                victim.kill()

    def _progress(self, judge: Judge) -> Progress:
        return Progress(
            submitted=len(self._expected),
            succeeded=judge.ended_by("succeeded"),
            dead_lettered=sum(judge.dead.values()),
            quarantined=judge.quarantined,
            left=judge.unfinished(dict(self._expected)),
            killed=tuple(self._killed),
        )


def next_commands(prefix: str, bootstrap: str) -> str:
    """Return the three commands to go on with."""
    scheduler = ".venv/bin/scheduler" if Path(".venv/bin/scheduler").exists() else "scheduler"
    return "\n".join(
        f"  {scheduler} {command}"
        for command in (
            f"-b {bootstrap} topics verify --prefix {prefix}",
            f"-b {bootstrap} schema check --topic {prefix}submit.default --last 100",
            "dev stop",
        )
    )


def _say(text: str) -> None:
    click.echo(text, err=True)
