"""Random stories: jobs of all kinds, workers that die, time in odd steps. Each job ends, and no run breaks the rules."""

import random
from datetime import timedelta
from itertools import pairwise

import pytest

from scheduler import App, Context, Fail, Retry, Snooze

app = App("stories")
STEPS = 15


class Dice(random.Random):
    """What the handlers of the present story do."""

    def lets_pass(self, jobs, chance):
        if self.random() < chance:
            jobs.advance(timedelta(milliseconds=self.randrange(1, 60_000)))


dice = Dice()
told: dict[str, object] = {}


@app.job(max_attempts=3, timeout="40s")
def walk(ctx: Context, n: int) -> int:
    for step in range(ctx.checkpoint or 0, dice.randrange(4)):
        dice.lets_pass(told["jobs"], 0.2)
        ctx.save(step + 1)
        ctx.check()
    end = dice.random()
    if end < 0.2:
        raise dice.choice([OSError(), Retry("7s"), Snooze("3m"), Fail("no")])
    if end < 0.3:
        walk.options(delay=f"{dice.randrange(100_000)}ms").submit(n)
    elif end < 0.4:
        ctx.emit(fly.request(n))
    return n


@app.job(max_attempts=3, timeout="40s")
async def fly(n: int) -> int:
    dice.lets_pass(told["jobs"], 0.2)
    if dice.random() < 0.2:
        raise OSError
    return n


def play(jobs):
    for _ in range(STEPS):
        for _ in range(dice.randrange(6)):
            job = dice.choice([walk, fly]).options(
                priority=dice.choice(["interactive", "default", "bulk"]),
                delay=f"{dice.choice([0, 0, dice.randrange(200_000)])}ms",
                tenant=dice.choice("abc"),
                queue=dice.choice("xy"),
            )
            job.submit(dice.randrange(100))
        if dice.random() < 0.3:
            jobs.kill_worker(after_checkpoint=dice.choice([None, 1, 2]))
        dice.choice([jobs.run, lambda: jobs.advance(timedelta(milliseconds=dice.randrange(100_000)))])()
    jobs.advance("30d")


@pytest.mark.parametrize("seed", range(15))
def test_every_job_ends_and_no_run_breaks_the_rules(jobs, seed):
    dice.seed(seed)
    told["jobs"] = jobs
    play(jobs)
    assert {one.ref.state for one in jobs.submitted} <= {"succeeded", "failed"}
    for one in jobs.submitted:
        runs = jobs.runs(one.ref)
        assert runs and all(run.started_at >= one.at + one.delay for run in runs)
        assert all(run.ended_at <= later.started_at for run, later in pairwise(runs))
        assert [run.epoch for run in runs] == sorted({run.epoch for run in runs})
        done = [run.outcome for run in runs].count("succeeded")
        assert done == (one.ref.state == "succeeded")
