"""What an operator has to hear of: it is told loudly and counted, and nothing goes by it."""

import logging

import pytest

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import LogError
from tests.dispatcher.world import World

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def told(caplog):
    caplog.set_level(logging.ERROR)
    return caplog


# -- at a take-over ---------------------------------------------------------------------------------------------


def taken_over(world: World, offsets: dict[Input, int]):
    """Let `d2` take all shards over from `d1`, in a group that has these offsets for each."""
    world.kill("d1")
    d2 = world.join("d2")
    d2.log.group_offsets = lambda shards: {
        (shard, source): offset for shard in shards for source, offset in offsets.items()
    }
    world.until(d2.is_active)
    return d2


def test_a_position_behind_the_groups_is_told_and_the_state_wins(world, told):
    world.submit("a")
    world.turn(2)
    d2 = taken_over(world, {Input.SUBMIT_DEFAULT: 500})
    assert d2.signals.counts["positions_behind",] == world.shards
    assert "submit.default/0: the group stands at 500" in told.text
    world.submit("b")
    world.turn(2)
    assert set(world.states()) == {"a", "b"}


def test_a_group_that_is_behind_or_knows_nothing_is_usual(world, told):
    world.submit("a")
    world.turn(2)
    positions = {shard: world.meta(shard).positions for shard in range(world.shards)}
    assert max(each["submit.default"] for each in positions.values()) == 1
    d2 = taken_over(world, {Input.SUBMIT_DEFAULT: 0})
    assert d2.signals.counts["positions_behind",] == 0
    assert not told.records


def test_the_group_is_asked_once_for_the_shards_that_came_together(world):
    jobs = [f"job-{n}" for n in range(60) if world.home(f"job-{n}") == 1]
    for job_id in jobs:
        world.submit(job_id)
    world.turn(2)
    world.kill("d1")
    d2 = world.join("d2")
    d2.changelog._slice_records = 3  # so that their restores end in different turns
    asked: list[object] = []
    members, offsets = d2.log.members, d2.log.group_offsets
    d2.log.members = lambda: (asked.append("members"), members())[1]
    d2.log.group_offsets = lambda shards: (asked.append(sorted(shards)), offsets(shards))[1]
    restored: set[int] = set()
    while not d2.is_active():
        world.turn()
        restored.add(sum(stage.name != "RESTORING" for stage in d2.stages().values()))
    assert len(restored - {0}) > 1
    assert asked == ["members", [0, 1, 2, 3]]
    d2.log.rejoin([2])
    world.turn()
    world.until(d2.is_active)
    assert asked[2:] == ["members", [2]]


def test_a_group_that_does_not_answer_stops_nobody_and_is_asked_again(world, told):
    world.kill("d1")
    d2 = world.join("d2")
    tries: list[int] = []

    def silent(shards):
        tries.append(len(shards))
        raise LogError("no answer")

    d2.log.group_offsets = silent
    world.until(d2.is_active)
    assert tries
    assert d2.signals.counts["positions_behind",] == 0


# -- in the long run --------------------------------------------------------------------------------------------


def test_how_far_the_clocks_are_apart_is_measured(world, d1):
    d1.clock.ahead_ms = -7_000
    world.wait(61_000, every_ms=1_000)
    assert d1.signals.clock_difference_ms == pytest.approx(-7_000, abs=10)


def counts(world: World, **changed: int) -> dict[str, int]:
    topics = ["reports", "submit.default", "commands", "changelog", "lifecycle"]
    return {**dict.fromkeys(topics, world.shards), "dlq": 8, **changed}


def test_a_partition_count_that_somebody_changed_is_told_each_hour(world, d1, told):
    d1.log.partitions = lambda: counts(world)
    world.wait(HOUR_MS + 1_000, every_ms=10_000)
    assert d1.signals.changed_topics == 0
    assert not told.records
    d1.log.partitions = lambda: counts(world, **{"submit.default": 6, "changelog": 8})
    world.wait(HOUR_MS, every_ms=10_000)
    assert d1.signals.changed_topics == 2
    assert "jobs.submit.default has 6 partitions, where there were 4" in told.text
    told.clear()
    world.wait(HOUR_MS, every_ms=10_000)
    assert "jobs.submit.default has 6 partitions" in told.text


def test_the_old_layout_goes_on_and_no_job_has_two_states(world, d1):
    # Producers go by the new count; what they send to a partition that was there before reaches its home.
    d1.log.partitions = lambda: counts(world, **{"submit.default": 6})
    jobs = [f"job-{n}" for n in range(200)]
    for number, job_id in enumerate(jobs):
        world.submit(job_id, shard=number % world.shards)
        world.submit(job_id, shard=world.home(job_id))
    world.wait(HOUR_MS + 1_000, every_ms=10_000)
    assert set(world.states()) == set(jobs)
    assert world.counts["repeated",] == len(jobs)


def test_brokers_that_do_not_say_are_asked_the_next_hour(world, d1):
    def silent():
        raise LogError("no answer")

    d1.log.partitions = silent
    world.wait(HOUR_MS + 1_000, every_ms=10_000)
    d1.log.partitions = lambda: counts(world, reports=9)
    world.wait(HOUR_MS, every_ms=10_000)
    assert d1.signals.changed_topics == 1


# -- timers ------------------------------------------------------------------------------------------------------


def test_timers_that_nobody_wakes_are_told_while_the_rest_works(world, d1, monkeypatch):
    from scheduler.dispatcher import engine

    wake_due = engine.wake_due
    monkeypatch.setattr(engine, "wake_due", lambda shard, moment, limit: 0)
    world.submit("later", run_at_ms=world.time.ms + 5_000)
    world.submit("now")
    world.wait(4_000)
    assert d1.signals.late_ms == 0
    world.wait(60_000)
    assert world.state("now").phase == "ready"
    assert 57_000 <= d1.signals.late_ms <= 60_000
    monkeypatch.setattr(engine, "wake_due", wake_due)
    world.wait(2_000)
    assert world.state("later").phase == "ready"
    assert d1.signals.late_ms == 0
