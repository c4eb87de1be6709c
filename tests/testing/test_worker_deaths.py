"""A worker that dies reports nothing; its lease expires in virtual time, and another worker goes on."""

from datetime import timedelta

import pytest

from scheduler import App, Context

app = App("deaths")


@app.job()
def walk(ctx: Context) -> int:
    for n in range(ctx.checkpoint or 0, 5):
        ctx.save(n + 1)
    return ctx.epoch


@app.job()
def jump() -> str:
    return "there"


@app.job()
def fails() -> None:
    raise OSError


def test_a_run_dies_at_its_start_and_another_worker_goes_on(jobs):
    begun = jobs.now
    ref = jump.submit()
    jobs.kill_worker()
    jobs.run()
    lost, run = jobs.runs(ref)
    assert (lost.outcome, lost.started_at, lost.ended_at) == ("lost", begun, begun)
    assert (run.outcome, run.started_at - begun) == ("succeeded", timedelta(seconds=10))
    assert lost.worker != run.worker and lost.epoch < run.epoch
    assert ref.result() == "there" and ref.attempts == 1


def test_a_run_dies_in_the_middle_once_its_checkpoint_is_durable(jobs):
    ref = walk.submit()
    jobs.kill_worker(after_checkpoint=2)
    jobs.kill_worker(after_checkpoint=1)
    jobs.run()
    assert [(run.checkpoint, run.outcome) for run in jobs.runs(ref)] == [
        (None, "lost"),
        (2, "lost"),
        (3, "succeeded"),
    ]


def test_the_third_loss_ends_the_job(jobs):
    ref = walk.submit()
    for _ in range(3):
        jobs.kill_worker(after_checkpoint=1)
    jobs.run()
    assert ref.state == "failed" and len(jobs.runs(ref)) == 3
    assert [(letter.reason, letter.attempts) for letter in jobs.dead_letters] == [("lost", 0)]


def test_a_job_that_no_worker_lives_to_begin_is_suspected_and_lost_at_last(jobs):
    ref = jump.submit()
    for _ in range(5):
        jobs.kill_worker()
    jobs.run()
    # Twice before any beat; then each lease begins with one, and three of those are the end.
    assert ref.state == "failed" and jobs.dead_letters[0].reason == "lost"


def test_only_the_first_run_that_fits_dies(jobs):
    first, second, third = jump.submit(), walk.submit(), walk.submit()
    jobs.kill_worker(after_checkpoint=3)
    jobs.run()
    assert [[run.outcome for run in jobs.runs(ref)] for ref in (first, second, third)] == [
        ["succeeded"],
        ["lost", "succeeded"],
        ["succeeded"],
    ]


def test_others_do_not_wait_for_the_lease_of_the_dead(jobs):
    begun = jobs.now
    jobs.kill_worker()
    refs = [jump.submit() for _ in range(3)]
    jobs.run()
    assert [jobs.runs(ref)[-1].started_at - begun for ref in refs] == [
        timedelta(seconds=10),
        timedelta(0),
        timedelta(0),
    ]


def test_what_becomes_due_while_a_lease_expires_runs_at_its_time(jobs):
    begun = jobs.now
    jobs.kill_worker()
    jump.submit()
    early, late = (jump.options(delay=delay).submit() for delay in ("4s", "1m"))
    jobs.run()
    assert jobs.runs(early)[0].started_at - begun == timedelta(seconds=4)
    assert late.state == "scheduled" and jobs.now - begun == timedelta(seconds=10)


def test_advance_passes_over_an_expiry_too(jobs):
    jobs.kill_worker()
    ref = jump.submit()
    jobs.advance("9s")
    assert ref.state == "leased"
    jobs.advance("1s")
    assert ref.state == "succeeded"


def test_a_dead_run_says_and_submits_nothing(jobs):
    log: list[str] = []

    @app.job(name="loud")
    def loud(ctx: Context) -> None:
        try:
            ctx.save(1)
        finally:
            log.append("unwound")
            jump.submit()

    loud.submit()
    jobs.kill_worker(after_checkpoint=1)
    jobs.run()
    assert log == ["unwound", "unwound"]
    assert [one.type for one in jobs.submitted] == ["deaths.loud", "deaths.jump"]  # by the second run


def test_checkpoints_count_from_one(jobs):
    with pytest.raises(ValueError, match="after_checkpoint=0"):
        jobs.kill_worker(after_checkpoint=0)


def test_retries_and_losses_are_counted_apart(jobs):
    jobs.kill_worker()
    ref = fails.submit()
    jobs.run()
    assert ref.state == "retrying" and ref.attempts == 1
    assert [run.outcome for run in jobs.runs(ref)] == ["lost", "failed"]
