"""Judges a chaos run by its evidence. Pure: what it must find is proved by tests with forged evidence."""

import itertools
from collections import Counter
from collections.abc import Iterator

import msgspec

from tests.chaos.app import CHILD, OK, RETRY_AFTER_MS
from tests.chaos.evidence import Evidence, Run

FREEZE_TAIL_MS = 1_000
"""A thawed guard looks at its table within 100 ms, on a busy machine a little later."""


class Verdict(msgspec.Struct, frozen=True):
    """What came of everything. The counts of `FAULTS` must be zero."""

    accepted: int
    succeeded: int
    failed: dict[str, int]  # by reason
    lost: int  # accepted, and never ended
    completed_twice: int  # ended more than once
    started_early: int  # before its time, or before the wait that it had asked for
    overlapping: int  # began while another process still ran the job
    started_twice: int  # one lease, two runs
    unfounded: int  # succeeded without a run that did
    children_amiss: int  # emitted jobs that are missing, or whose parent did not succeed
    dead_letters_amiss: (
        int  # failed jobs without one dead letter each, dead letters of others, quarantined records
    )
    second_runs: int  # an attempt that ran again
    unexplained: int  # of these: no lease of the job was lost
    thawed_overlaps: int  # overlaps by a run that was frozen together with its guard

    @property
    def clean(self) -> bool:
        return not any(getattr(self, name) for name in FAULTS)


FAULTS = (
    "lost",
    "completed_twice",
    "started_early",
    "overlapping",
    "started_twice",
    "unfounded",
    "children_amiss",
    "dead_letters_amiss",
    "unexplained",
)


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict."""
    ends, runs = evidence.ends, evidence.runs
    overlaps = [pair for of in runs.values() for pair in overlaps_of(of)]
    thawed = sum(_was_frozen(evidence, *overlap) for overlap in overlaps)
    again = {job: second_runs(of) for job, of in runs.items()}
    return Verdict(
        accepted=sum(job.accepted for job in evidence.jobs.values()),
        succeeded=sum(of[0].event == "succeeded" for of in ends.values()),
        failed=dict(Counter(of[0].reason for of in ends.values() if of[0].event != "succeeded")),
        lost=len(unfinished(evidence)),
        completed_twice=sum(len(of) > 1 for of in ends.values()),
        started_early=sum(_early(evidence, run) for of in runs.values() for run in of)
        + sum(_hasty(*pair) for of in runs.values() for pair in itertools.pairwise(of)),
        overlapping=len(overlaps) - thawed,
        started_twice=sum(len(of) - len({run.epoch for run in of}) for of in runs.values()),
        unfounded=sum(_unfounded(evidence, job) for job in ends),
        children_amiss=sum(job.endswith(CHILD) and not _founded(evidence, job) for job in ends),
        dead_letters_amiss=_dead_letters_amiss(evidence),
        second_runs=sum(again.values()),
        unexplained=sum(max(0, count - evidence.lost.get(job, 0)) for job, count in again.items()),
        thawed_overlaps=thawed,
    )


def unfinished(evidence: Evidence) -> list[str]:
    """Return what has not ended: accepted jobs, and jobs that a completion emitted."""
    accepted = [job for job, of in evidence.jobs.items() if of.accepted]
    emitted = [
        job + CHILD
        for job, of in evidence.jobs.items()
        if of.type == "chaos.parent" and any(end.event == "succeeded" for end in evidence.ends.get(job, ()))
    ]
    return [job for job in (*accepted, *emitted) if job not in evidence.ends]


def overlaps_of(runs: list[Run]) -> Iterator[tuple[Run, int]]:
    """Return each run that began beside another process's run of the job, with that process."""
    for later in runs:
        beside = later.beside or next(
            (
                run.pid
                for run in runs
                if run is not later
                and run.boot_ms <= later.boot_ms < run.end_boot_ms
                and run.epoch != later.epoch
            ),
            0,
        )
        if beside:
            yield later, beside


def second_runs(runs: list[Run]) -> int:
    """Return how many runs repeat an attempt: a failure begins the next one, a lost lease the same again."""
    return len(runs) - len({run.attempt for run in runs})


def _dead_letters_amiss(evidence: Evidence) -> int:
    """Return by how many dead letters the topic differs from the jobs that failed."""
    failed = {job for job, of in evidence.ends.items() if any(end.event == "failed" for end in of)}
    return sum(abs(evidence.dead.get(job, 0) - (job in failed)) for job in failed | evidence.dead.keys())


def _was_frozen(evidence: Evidence, run: Run, holder: int) -> bool:
    return any(
        freeze.pid == holder and freeze.from_boot_ms <= run.boot_ms <= freeze.to_boot_ms + FREEZE_TAIL_MS
        for freeze in evidence.frozen
    )


def _early(evidence: Evidence, run: Run) -> bool:
    job = evidence.jobs.get(run.job)
    return job is not None and run.wall_ms < job.run_at_ms


def _hasty(earlier: Run, later: Run) -> bool:
    """Say whether a job that had asked for a wait ran before it was over. The next attempt proves that it was heard."""
    asked = earlier.outcome == "Retry" and later.attempt == earlier.attempt + 1
    return asked and later.boot_ms < earlier.end_boot_ms + RETRY_AFTER_MS


def _unfounded(evidence: Evidence, job: str) -> bool:
    done = {run.epoch for run in evidence.runs.get(job, ()) if run.outcome == OK}
    return any(end.event == "succeeded" and end.epoch not in done for end in evidence.ends[job])


def _founded(evidence: Evidence, child: str) -> bool:
    parent = evidence.ends.get(child.removesuffix(CHILD), ())
    return any(end.event == "succeeded" for end in parent)
