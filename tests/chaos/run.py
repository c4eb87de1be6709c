"""One chaos run: everything started, faults by the schedule, everything healed, quiet awaited, judged."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler.bench.site import Site
from scheduler.core.job import JobState
from tests.chaos import evidence
from tests.chaos.brokers import Brokers
from tests.chaos.catalogue import ANYWHERE, SEVERAL_BROKERS, SMALL_DISK, Fault
from tests.chaos.evidence import Evidence
from tests.chaos.fleet import Fleet
from tests.chaos.judge import Verdict, judge, unfinished
from tests.chaos.ledger import lines
from tests.chaos.report import Report
from tests.chaos.schedule import Planned, plan
from tests.chaos.topics import Topics
from tests.chaos.world import World

SHARDS: Final = 8
DISPATCHERS: Final = 3
WORKERS: Final = 4
READY_S: Final = 90.0
TELL_EVERY_S: Final = 15.0
STEP_S: Final = 0.5
SHOWN: Final = 10
TAIL_CHARS: Final = 6_000
LATE_DOUBLES_S: Final = 3.0
"""A second completion would have shown by then."""


class NeverReadyError(Exception):
    """Something did not start; the message says where its log is."""


class Chaos:
    """The run. `close` stops everything and removes the folder; a run that is not clean should keep it."""

    def __init__(
        self,
        *,
        seed: int,
        minutes: float,
        brokers: int,
        rate: float,
        say: Callable[[str], None],
        faults: Sequence[Fault] = ANYWHERE,
    ) -> None:
        self._seed = seed
        self._minutes = minutes
        self._faults_anywhere = faults
        self._say = say
        self._told = 0.0
        self._age_s = 0.0
        self._failed: list[str] = []
        self._begun: Counter[str] = Counter()
        self._brokers = Brokers(brokers, say)
        self.site = Site(
            {"bootstrap.servers": self._brokers.proxied}, shards=SHARDS, replicas=min(brokers, 3)
        )
        self._topics = Topics(self._brokers.direct, self.site.prefix)
        self._fleet = Fleet(self.site, dispatchers=DISPATCHERS, workers=WORKERS, rate=rate, seed=seed)
        self._world = World(self._fleet, self._brokers, self.site.prefix)

    def run(self, quiet_s: float) -> Report:
        """Run it, and go on after the last fault until all is quiet, or nothing has happened for `quiet_s`."""
        self._until_ready()
        self._trouble()
        self._say("faults are over: healing")
        self._heal()
        quiet_after_s = self._until_quiet(quiet_s)
        states = self._topics.states()
        found = self._evidence(states)
        if unfinished(found):
            self._fleet.say_where_they_are()
        return self._report(
            quiet_after_s, judge(found), [_known(found, states, job) for job in unfinished(found)[:SHOWN]]
        )

    def logs(self) -> str:
        """Return the last that each process said."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-TAIL_CHARS:]}"
            for path in sorted(self.site.folder.glob("*.log"))
        )

    def close(self, *, keep: bool) -> None:
        self._fleet.close()
        self._topics.close()
        if keep:
            for process in reversed(self.site.processes):
                process.stop()
        else:
            self.site.close()
        self._brokers.close()

    def _until_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while not all(member.ready for member in self._fleet.members):
            if time.monotonic() > deadline:
                raise NeverReadyError(f"not ready within {READY_S:.0f} s: see {self.site.folder}")
            time.sleep(0.1)

    def _trouble(self) -> None:
        seconds = self._minutes * 60
        threads = []
        for planned in plan(self._seed, seconds, self._faults()):
            self._follow_until(planned.at_s)
            thread = threading.Thread(
                target=self._befall, args=(planned,), name=planned.fault.name, daemon=True
            )
            thread.start()
            threads.append(thread)
        self._follow_until(seconds)
        self._world.over.set()
        for thread in threads:
            thread.join()

    def _faults(self) -> tuple[Fault, ...]:
        return (
            *self._faults_anywhere,
            *(SEVERAL_BROKERS if len(self._brokers.nodes) > 1 else ()),
            *(SMALL_DISK if self._fleet.small_disk else ()),
        )

    def _befall(self, planned: Planned) -> None:
        if self._world.over.is_set():
            return
        self._begun[planned.fault.name] += 1
        try:
            planned.fault.act(self._world, random.Random(planned.seed))
        except Exception as error:  # a fault that fails must not hide what the others find
            self._failed.append(f"{planned.fault.name}: {type(error).__name__}: {error}")

    def _follow_until(self, at_s: float) -> None:
        """Follow the topics until the run is so old. It ages in steps: faults don't pile up while somebody holds us still."""
        while self._age_s < at_s:
            before = time.monotonic()
            self._topics.follow(min(at_s - self._age_s, STEP_S))
            self._age_s += min(time.monotonic() - before, 2 * STEP_S)
            self._tell()

    def _tell(self, left: str = "") -> None:
        if time.monotonic() < self._told + TELL_EVERY_S:
            return
        self._told = time.monotonic()
        done = self._world.done
        self._say(
            f"{len(self._topics.ends)} jobs have ended; {done['kills']} kills, {done['stops']} stops{left}"
        )

    def _heal(self) -> None:
        self._brokers.heal(self.site.prefix)
        self._fleet.heal()
        load = self._fleet.load
        with load.turn:
            load.end()

    def _until_quiet(self, quiet_s: float) -> float:
        """Wait until everything has ended. What goes on working has time; `quiet_s` without a single end are a hang.

        Seconds count in steps, and only while nobody holds us or the others still.
        """
        jobs = evidence.jobs_of(lines(self.site.folder / "receipts"))
        waited, idle, settled = 0.0, 0.0, 0.0
        while idle < quiet_s and settled < LATE_DOUBLES_S:
            ended = len(self._topics.ends)
            self._topics.follow(STEP_S)
            step_s = 0.0 if self._fleet.stopped_by_others else STEP_S
            waited += step_s
            idle = 0.0 if len(self._topics.ends) > ended else idle + step_s
            left = unfinished(Evidence(jobs, {}, self._topics.ends, {}))
            settled = 0.0 if left else settled + STEP_S
            self._tell(f"; {len(left)} are left")
        return waited

    def _evidence(self, states: Mapping[str, JobState]) -> Evidence:
        folder = self.site.folder
        lost = {
            job: state.history.losses + state.history.undelivered + state.history.releases
            for job, state in states.items()
        }
        return Evidence(
            evidence.jobs_of(lines(folder / "receipts")),
            evidence.runs_of(lines(folder / "runs")),
            self._topics.ends,
            lost,
            self._topics.dead_letters(),
            tuple(self._world.frozen),
        )

    def _report(self, quiet_after_s: float, verdict: Verdict, left: list[str]) -> Report:
        done = self._world.done
        return Report(
            self._seed,
            self._minutes,
            len(self._brokers.nodes),
            verdict,
            done["kills"],
            done["stops"],
            {name: count for name, count in done.items() if name not in {"kills", "stops"}},
            dict(self._begun),
            self._failed,
            self._fleet.exits(),
            quiet_after_s,
            self._fleet.left_out,
            left,
            [f"{job} {of}" for job, of in self._topics.ends.items() if len(of) > 1][:SHOWN],
            self._topics.repeated,
        )


def _known(found: Evidence, states: Mapping[str, JobState], job: str) -> str:
    """Say what is known of a job that has not ended."""
    state, runs = states.get(job), found.runs.get(job, [])
    phase = f"{state.phase}, epoch {state.epoch}" if state is not None else "no state"
    return f"{job} {phase}; {len(runs)} runs{', the last as ' + repr(runs[-1]) if runs else ''}"
