"""The judge finds what it is there for: each test forges one fault into good evidence."""

import msgspec
import pytest

from tests.chaos.app import CHILD, OK, RETRY_AFTER_MS
from tests.chaos.evidence import End, Evidence, Freeze, Job, Run, jobs_of, runs_of
from tests.chaos.judge import FAULTS, judge, unfinished

DONE = End("succeeded", "", 1)


def run(job: str = "j", epoch: int = 1, attempt: int = 1, at_ms: int = 1_000, **more) -> Run:
    """A run of 100 ms that went well."""
    good = {"pid": epoch, "end_boot_ms": at_ms + 100, "outcome": OK}
    return Run(job, epoch, attempt, boot_ms=at_ms, wall_ms=at_ms, **{**good, **more})


def killed(**more) -> Run:
    return run(**more, end_boot_ms=0, outcome="")


GOOD = Evidence(
    {"j": Job("chaos.quick", run_at_ms=1_000), "p": Job("chaos.parent")},
    {"j": [run()], "p": [run("p")], f"p{CHILD}": [run(f"p{CHILD}")]},
    {"j": [DONE], "p": [DONE], f"p{CHILD}": [DONE]},
    {},
)


def forged(**changes) -> Evidence:
    """Good evidence with some of its entries replaced; None removes one."""
    fields = {
        name: {key: value for key, value in {**getattr(GOOD, name), **change}.items() if value is not None}
        for name, change in changes.items()
    }
    return msgspec.structs.replace(GOOD, **fields)


def faults(evidence: Evidence) -> dict[str, int]:
    verdict = judge(evidence)
    found = {name: getattr(verdict, name) for name in FAULTS if getattr(verdict, name)}
    assert verdict.clean == (not found)
    return found


def test_good_evidence_is_clean():
    assert faults(GOOD) == {}
    assert judge(GOOD).succeeded == 3


def test_an_accepted_job_that_never_ended_is_lost():
    assert faults(forged(ends={"j": None})) == {"lost": 1}
    assert unfinished(forged(ends={"j": None})) == ["j"]


def test_a_job_without_a_receipt_may_be_missing():
    assert faults(forged(jobs={"j": Job("chaos.quick", accepted=False)}, ends={"j": None})) == {}


def test_an_emitted_job_that_never_ended_is_lost():
    assert faults(forged(ends={f"p{CHILD}": None})) == {"lost": 1}


def test_an_emitted_job_of_a_parent_that_failed_is_amiss():
    failed = [End("failed", "lost", 1)]
    assert faults(forged(ends={"p": failed}, dead={"p": 1})) == {"children_amiss": 1}


@pytest.mark.parametrize("letters", [0, 2])
def test_a_job_that_failed_has_one_dead_letter(letters: int):
    failed = [End("failed", "attempts_exhausted", 1)]
    assert faults(forged(ends={"j": failed}, dead={"j": letters})) == {"dead_letters_amiss": 1}
    assert faults(forged(ends={"j": failed}, dead={"j": 1})) == {}


@pytest.mark.parametrize("name", ["j", ""])
def test_a_dead_letter_of_a_job_that_did_not_fail_or_of_a_good_record_is_amiss(name: str):
    assert faults(forged(dead={name: 1})) == {"dead_letters_amiss": 1}


@pytest.mark.parametrize("second", [DONE, End("succeeded", "", 2), End("cancelled", "", 2)])
def test_a_job_that_ended_twice_completed_twice(second: End):
    both = forged(runs={"j": [run(), run(epoch=2, attempt=2, at_ms=2_000)]}, ends={"j": [DONE, second]})
    assert faults(both) == {"completed_twice": 1}


def test_a_start_before_its_time_is_early():
    assert faults(forged(jobs={"j": Job("chaos.quick", run_at_ms=1_001)})) == {"started_early": 1}


def test_a_retry_before_the_wait_that_was_asked_for_is_early():
    def retried(after_ms: int) -> Evidence:
        first = run(outcome="Retry")
        second = run(epoch=2, attempt=2, at_ms=first.end_boot_ms + after_ms)
        return forged(runs={"j": [first, second]}, ends={"j": [End("succeeded", "", 2)]})

    assert faults(retried(RETRY_AFTER_MS - 1)) == {"started_early": 1}
    assert faults(retried(RETRY_AFTER_MS)) == {}


def test_a_run_that_began_before_the_last_one_ended_overlaps():
    second = run(epoch=2, at_ms=1_099)
    assert faults(forged(runs={"j": [run(), second]}, lost={"j": 1})) == {"overlapping": 1}
    after = run(epoch=2, at_ms=1_100)
    assert faults(forged(runs={"j": [run(), after]}, lost={"j": 1})) == {}


def test_a_run_beside_a_killed_one_overlaps_if_that_held_its_claim():
    second = run(epoch=2, at_ms=5_000, beside=1)
    assert faults(
        forged(runs={"j": [killed(), second]}, ends={"j": [End("succeeded", "", 2)]}, lost={"j": 1})
    ) == {"overlapping": 1}


def test_an_overlap_by_a_run_that_was_frozen_with_its_guard_is_told_apart():
    second = run(epoch=2, at_ms=5_000, beside=1)
    beside = forged(runs={"j": [killed(), second]}, ends={"j": [End("succeeded", "", 2)]}, lost={"j": 1})
    thawed = msgspec.structs.replace(beside, frozen=(Freeze(1, 900, 4_500),))
    assert faults(thawed) == {}
    assert judge(thawed).thawed_overlaps == 1
    long_ago = msgspec.structs.replace(beside, frozen=(Freeze(1, 900, 2_000),))
    assert faults(long_ago) == {"overlapping": 1}


def test_one_lease_that_started_two_runs():
    twice = [run(), run(at_ms=2_000, pid=7)]
    assert faults(forged(runs={"j": twice}, lost={"j": 1})) == {"started_twice": 1}


def test_a_success_of_a_lease_whose_run_did_not_succeed_is_unfounded():
    assert faults(forged(runs={"j": [killed()]})) == {"unfounded": 1}
    assert faults(forged(runs={"j": None})) == {"unfounded": 1}
    assert faults(forged(ends={"j": [End("succeeded", "", 2)]})) == {"unfounded": 1}


def test_a_second_run_of_an_attempt_is_explained_by_a_lost_lease_only():
    again = {"j": [killed(), run(epoch=2, at_ms=2_000)]}
    ends = {"j": [End("succeeded", "", 2)]}
    assert faults(forged(runs=again, ends=ends)) == {"unexplained": 1}
    assert faults(forged(runs=again, ends=ends, lost={"j": 1})) == {}
    assert judge(forged(runs=again, ends=ends, lost={"j": 1})).second_runs == 1


def test_another_attempt_needs_no_explanation():
    retried = {"j": [run(outcome="ConnectionError"), run(epoch=2, attempt=2, at_ms=2_000)]}
    assert faults(forged(runs=retried, ends={"j": [End("succeeded", "", 2)]})) == {}


def test_what_the_load_wrote_down_becomes_jobs():
    lines = [
        {"what": "wanted", "job": "a", "type": "chaos.quick", "run_at_ms": 5},
        {"what": "wanted", "job": "b", "type": "chaos.long", "run_at_ms": 0},
        {"what": "receipt", "job": "a"},
        {"what": "receipt", "job": "a"},
    ]
    assert jobs_of(lines) == {"a": Job("chaos.quick", 5), "b": Job("chaos.long", 0, accepted=False)}


def test_what_handlers_wrote_down_becomes_runs_in_the_order_of_epochs():
    def line(what: str, epoch: int, at_ms: int, **more) -> dict:
        return {
            "what": what,
            "job": "a",
            "epoch": epoch,
            "attempt": 1,
            "pid": epoch,
            "boot_ms": at_ms,
            "wall_ms": at_ms,
            **more,
        }

    written = [
        line("start", 2, 50, beside=1),
        line("end", 2, 60, outcome=OK),
        line("start", 1, 10, beside=0),
    ]
    assert runs_of(written) == {
        "a": [Run("a", 1, 1, 1, 10, 10), Run("a", 2, 1, 2, 50, 50, beside=1, end_boot_ms=60, outcome=OK)]
    }
