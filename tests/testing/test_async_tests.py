"""Tests that are coroutines use the fixture like any other."""

import asyncio

import pytest

from scheduler import App
from scheduler.testing import NeverIdle

app = App("coroutines")


@app.job()
async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n


@app.job()
def starts_a_loop() -> int:
    return asyncio.run(asyncio.sleep(0, 7))


@app.job()
async def endless() -> None:
    await endless.asubmit()


@app.job(queue="other")
async def interrupted() -> None:
    raise KeyboardInterrupt


def test_handlers_run_while_the_tests_own_loop_stands_still(jobs):
    async def story():
        ours, us = asyncio.get_running_loop(), asyncio.current_task()
        refs = [await later.asubmit(1), later.submit(2), starts_a_loop.submit()]
        jobs.run()
        assert asyncio.get_running_loop() is ours and asyncio.current_task() is us
        await asyncio.sleep(0)
        return [ref.result() for ref in refs]

    assert asyncio.run(story()) == [1, 2, 7]


def test_a_run_that_raises_leaves_the_tests_own_loop_in_order(jobs):
    async def story():
        ours, us = asyncio.get_running_loop(), asyncio.current_task()
        endless.submit()
        with pytest.raises(NeverIdle):
            jobs.run(most_runs=3)
        interrupted.submit()
        with pytest.raises(KeyboardInterrupt):
            jobs.run()
        assert asyncio.get_running_loop() is ours and asyncio.current_task() is us
        await asyncio.sleep(0)

    asyncio.run(story())


def test_tasks_that_a_handler_leaves_go_on_with_the_next_one_and_end_with_the_test(in_memory):
    log: list[str] = []

    async def background():
        try:
            log.append("begun")
            await asyncio.sleep(3600)
        finally:
            log.append("ended")

    async def spawns() -> None:
        tasks.append(asyncio.create_task(background()))

    tasks: list[asyncio.Task[None]] = []
    job = app.job(name="spawns")(spawns)
    with in_memory() as jobs:
        job.submit()
        later.submit(1)
        jobs.run()
        assert log == ["begun"]
    assert log == ["begun", "ended"]
