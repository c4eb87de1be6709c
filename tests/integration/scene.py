"""A scheduler of real processes on a real broker, and a judge that trusts none of them."""

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduler.bench import runlog
from scheduler.bench.judge import Expected, Judge, Verdict
from scheduler.bench.site import Process, Site
from scheduler.worker.app import App
from tests.integration import jobs as app_module

SETTINGS = """
queues:
  it: {lease: 10s}
"""


class Scene:
    """One site, its judge, and what was submitted."""

    def __init__(self, kafka: str, prefix: str) -> None:
        self.site = Site({"bootstrap.servers": kafka}, shards=4, prefix=f"{prefix}.")
        self.judge = Judge(self.site.properties, self.site.prefix)
        self.runs = self.site.folder / "runs"
        self.runs.mkdir()
        self.settings = self.site.folder / "settings.yaml"
        self.settings.write_text(SETTINGS)
        self.expected: dict[str, Expected] = {}
        self._app = App("it", connection=self.site.properties, prefix=self.site.prefix)
        self._work = self._app.job(queue="it")(app_module.work.fn)
        self._killer = self._app.job(queue="it")(app_module.kill_the_worker.fn)

    def dispatcher(self, name: str, *, fail_at: str = "", state_of: str | None = None) -> Process:
        environ = {"JOBS_FAILPOINT": fail_at}
        return self.site.dispatcher(name, state_of=state_of, settings=self.settings, environ=environ)

    def worker(self, name: str, *, fail_at: str = "", slots: int = 4) -> Process:
        environ = {runlog.FOLDER: str(self.runs), "JOBS_FAILPOINT": fail_at, "PYTHONPATH": str(Path.cwd())}
        return self.site.worker(name, "tests.integration.jobs:app", slots=slots, environ=environ)

    def submit(self, count: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        for ref in self._app.submit_many(self._work.request(n) for n in range(count)):
            self.expected[ref.id] = Expected(now_ms)

    def submit_killer(self) -> str:
        """Submit the job that kills its worker's parent in its first run; return its id."""
        ref = self._killer.submit()
        self.expected[ref.id] = Expected(time.time_ns() // 1_000_000)
        return ref.id

    def starts(self, job_id: str) -> list[int]:
        """Return when runs of a job began, Unix milliseconds."""
        runs = runlog.read_runs(self.runs)
        return [line["start_ms"] for line in runs if line["job"] == job_id and "start_ms" in line]

    def until(self, reached: Callable[[], bool], within_s: float = 90) -> None:
        """Follow the topics until `reached`; fail with the processes' logs if it never is."""
        deadline = time.monotonic() + within_s
        while not reached():
            self.judge.follow(0.1)
            if time.monotonic() > deadline:
                pytest.fail(f"not reached within {within_s} s; {self.logs()}")

    def until_done(self) -> None:
        self.until(lambda: not self.judge.unfinished(self.expected))

    def until_dead(self, process: Process) -> None:
        self.until(lambda: not process.alive(), 60)

    def ended(self) -> int:
        return len(self.judge.ends)

    def verdict(self) -> Verdict:
        self.judge.follow(1.0)  # a second completion would come now
        return self.judge.verdict(self.expected, 0, self.runs)

    def overlaps(self) -> int:
        """Return how many runs began while an earlier one of the same job had not ended; killed runs have no end."""
        found = 0
        by_job: dict[str, list[dict[str, int]]] = {}
        for line in runlog.read_runs(self.runs):
            by_job.setdefault(line["job"], []).append(line)
        for lines in by_job.values():
            ends = {line["epoch"]: line["end_ms"] for line in lines if "end_ms" in line}
            starts = sorted((line["start_ms"], line["epoch"]) for line in lines if "start_ms" in line)
            for (_, epoch), (later_ms, _) in itertools.pairwise(starts):
                found += ends.get(epoch, 0) > later_ms
        return found

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-2000:]}"
            for path in sorted(Path(self.site.folder).glob("*.log"))
        )


@contextmanager
def scene_on(kafka: str) -> Iterator[Scene]:
    """Set a scene with names of its own."""
    scene = Scene(kafka, f"t{uuid.uuid4().hex[:8]}-")
    try:
        yield scene
    finally:
        scene.judge.close()
        scene.site.close()
