"""The way through the retry topics: tiers, early, late, doubled and lost records, reading ahead."""

import pytest

from scheduler.codec.retry import decode_retry, encode_retry
from scheduler.core.inputs import Input
from scheduler.core.outputs import RetryRecord
from scheduler.core.reports import ReleaseReason
from scheduler.core.retry import TIERS
from scheduler.dispatcher.waiting_room import READ_AHEAD
from tests.dispatcher.lives import grant, grant_again
from tests.dispatcher.world import World


def snooze(world: World, worker, delay_ms: int, job_id: str = "a"):
    """Let a job wait for `delay_ms`; return the lease that ended."""
    lease = grant(world, worker, job_id)
    worker.release(lease, ReleaseReason.SNOOZED, delay_ms=delay_ms)
    world.turn(2)
    return lease


def tier_records(world: World) -> dict[str, list[RetryRecord]]:
    found = {
        tier.name: [decode_retry(one.value) for one in world.records(f"retry.{tier.name}")] for tier in TIERS
    }
    return {name: records for name, records in found.items() if records}


def put(world: World, tier: str, lease, **changes) -> None:
    record = RetryRecord(lease.job_id, lease.epoch, world.state(lease.job_id).due_ms)
    for name, value in changes.items():
        record = RetryRecord(
            **{"job_id": record.job_id, "epoch": record.epoch, "due_ms": record.due_ms, name: value}
        )
    shard = world.home(lease.job_id)
    world.broker.append(f"retry.{tier}", shard, b"x", encode_retry(record), at_ms=world.time.ms)


@pytest.mark.parametrize(
    ("delay_ms", "tier"),
    [
        (4_999, None),
        (5_000, "5s"),
        (29_999, "5s"),
        (30_000, "30s"),
        (150_000, "2m"),
        (1_000_000, "10m"),
        (7_200_000, "30m"),
    ],
)
def test_one_record_goes_to_the_largest_tier_that_fits(world, worker, delay_ms, tier):
    lease = snooze(world, worker, delay_ms)
    due_ms = world.time.ms - 10 + delay_ms
    state = world.state()
    assert state.due_ms == due_ms
    if tier is None:
        assert (state.tier, tier_records(world)) == (0, {})
    else:
        assert tier_records(world) == {tier: [RetryRecord("a", lease.epoch, due_ms)]}
        assert TIERS[state.tier - 1].name == tier


@pytest.mark.parametrize("delay_ms", [100, 4_999, 5_000, 7_300, 30_000, 45_000, 121_000])
def test_a_job_comes_back_when_it_is_due_and_not_earlier(world, worker, delay_ms):
    snooze(world, worker, delay_ms)
    due_ms = world.state().due_ms
    while world.time.ms < due_ms:
        assert world.state().phase == "retrying"
        world.turn(every_ms=min(500, due_ms - world.time.ms))
    world.turn(2, every_ms=1)
    assert world.state().phase == "ready"
    assert world.counts["retry_records_missed",] == 0


def test_the_record_hands_over_to_a_timer_for_the_rest(world, worker):
    snooze(world, worker, 8_000)
    assert world.state().tier
    world.wait(5_500)
    state = world.state()
    assert (state.phase, state.tier) == ("retrying", 0)


def test_the_position_moves_only_when_a_record_is_handed_on(world, worker):
    snooze(world, worker, 5_000)
    shard = world.home("a")
    world.wait(4_000)
    world.submit("b" if world.home("b") == shard else "a")  # a commit of that shard
    world.turn(2)
    assert world.meta(shard).positions["retry.5s"] == 0
    world.wait(2_500)
    assert world.meta(shard).positions["retry.5s"] == 1


def test_a_take_over_in_between_changes_nothing(world, worker):
    snooze(world, worker, 8_000)
    due_ms = world.state().due_ms
    world.wait(3_000)
    world.kill("d1")
    world.start("d2")
    while world.time.ms < due_ms:
        assert world.state().phase == "retrying"
        world.turn(every_ms=min(100, due_ms - world.time.ms))
    world.turn(2, every_ms=1)
    assert world.state().phase == "ready"


def test_a_record_of_another_epoch_is_ignored(world, d1, worker):
    lose_retries(d1)  # so that its own does not come in between
    lease = snooze(world, worker, 20_000)
    keep_retries(d1)
    put(world, "5s", lease, epoch=lease.epoch - 1)
    put(world, "5s", lease, epoch=lease.epoch + 1)
    world.wait(7_000)
    assert world.counts["retry_records_ignored",] == 2
    assert (world.state().phase, world.state().tier) == ("retrying", 1)


def test_an_early_record_does_not_wake_the_job(world, worker):
    lease = snooze(world, worker, 40_000)  # its own is in the 30 s tier
    put(world, "5s", lease)
    world.wait(6_000)
    assert (world.state().phase, world.state().tier) == ("retrying", 0)
    world.wait(32_000)
    assert world.state().phase == "retrying"
    world.wait(3_000)
    assert world.state().phase == "ready"
    assert world.counts["retry_records_ignored",] == 1  # its own, which came after


def test_a_doubled_record_wakes_the_job_once(world, worker):
    lease = snooze(world, worker, 5_000)
    put(world, "5s", lease)
    world.wait(5_500)
    again = grant_again(world, worker)
    world.wait(2_000)
    assert world.state().epoch == again.epoch
    assert world.state().phase == "leased"
    assert world.counts["retry_records_ignored",] == 1


def test_a_record_of_a_finished_job_is_ignored(world, worker):
    lease = snooze(world, worker, 5_000)
    worker.done(lease)  # it was late, and it counts
    world.turn(2)
    assert world.state().phase == "succeeded"
    world.wait(8_000)
    assert world.state().phase == "succeeded"
    assert world.counts["retry_records_ignored",] == 1


def test_a_record_that_was_never_written_is_missed_after_a_minute(world, d1, worker):
    lose_retries(d1)
    snooze(world, worker, 5_000)
    assert tier_records(world) == {}
    world.wait(5_000 + 60_000 - 1_000)
    assert world.state().phase == "retrying"
    world.wait(3_000)
    assert world.state().phase == "ready"
    assert world.counts["retry_records_missed",] == 1


def test_a_lost_record_is_missed_although_others_wait_in_other_tiers_and_in_its_own(world, d1, worker):
    same = [f"job-{n}" for n in range(100) if world.home(f"job-{n}") == world.home("a")]
    snooze(world, worker, 3_600_000, same[0])
    lose_retries(d1)
    snooze(world, worker, 30_000)
    keep_retries(d1)
    for number in range(1, 8):  # there is always one in its own tier too
        snooze(world, worker, 30_000, same[number])
        world.wait(14_000)
    assert world.state("a").phase == "ready"
    assert world.counts["retry_records_missed",] == 1


def test_a_backlog_that_is_not_read_yet_is_not_taken_for_lost(world, worker):
    snooze(world, worker, 30_000)
    world.kill("d1")
    world.time.ms += 3_600_000
    d2 = world.join("d2")
    shard = world.home("a")
    d2.log.paused.add((shard, Input.RETRY_30S))
    world.until(d2.is_active)
    world.wait(5_000)
    assert world.state().phase == "retrying"
    d2.log.resume(shard, Input.RETRY_30S, d2.engine.seats[shard].positions[Input.RETRY_30S])
    world.turn(3)
    assert world.state().phase == "ready"
    assert world.counts["retry_records_missed",] == 0


def test_a_tier_that_is_read_in_parts_does_not_hide_what_another_one_lost(world, d1, worker):
    world.checking = False
    same = many_snoozed(world, worker, READ_AHEAD + 20, 7_200_000)
    assert d1.engine.seats[0].rooms[Input.RETRY_30M].paused
    lost = next(f"late-{n}" for n in range(100) if world.home(f"late-{n}") == 0)
    lose_retries(d1)
    snooze(world, worker, 5_000, lost)
    keep_retries(d1)
    world.wait(70_000)
    assert world.state(lost).phase == "ready"
    assert all(world.state(job_id).phase == "retrying" for job_id in same[:3])


def lose_retries(dispatcher) -> None:
    """Let no retry record reach the broker."""
    produce = type(dispatcher.log).produce
    dispatcher.log.produce = lambda records: produce(
        dispatcher.log, [one for one in records if not one.topic.startswith("retry.")]
    )


def keep_retries(dispatcher) -> None:
    del dispatcher.log.produce


def many_snoozed(world: World, worker, count: int, delay_ms: int) -> list[str]:
    """Let `count` jobs of one shard wait."""
    jobs = [f"job-{n}" for n in range(20 * count) if world.home(f"job-{n}") == 0][:count]
    for start in range(0, count, 500):
        some = jobs[start : start + 500]
        worker.offer(500)
        for job_id in some:
            world.submit(job_id)
        world.turn(3)
        for lease in worker.leases():
            worker.release(lease, ReleaseReason.SNOOZED, delay_ms=delay_ms)
        world.turn(2)
    return jobs


def test_reading_ahead_pauses_and_goes_on(world, d1, worker):
    world.checking = False
    count = 3 * READ_AHEAD
    many_snoozed(world, worker, count, 30_000)
    world.turn(5)
    seat = d1.engine.seats[0]
    room = seat.rooms[Input.RETRY_30S]
    assert room.paused
    assert READ_AHEAD <= len(room) <= READ_AHEAD + d1.engine._config.turn_records
    assert (0, Input.RETRY_30S) in d1.log.paused
    world.wait(25_000, every_ms=5_000)
    assert world.meta(0).positions["retry.30s"] == 0
    world.until(lambda: not room.paused and not len(room), turns=100, every_ms=200)
    world.turn(3)
    assert sum(state.phase == "ready" for state in world.states().values()) == count
    assert seat.positions[Input.RETRY_30S] == len(world.broker.log("retry.30s", 0)) - 1  # a marker is last
    world.checking = True
    world.turn()


def test_due_retries_get_their_part_of_a_saturated_dispatcher():
    world = World(turn_records=50)
    world.start()
    worker = world.worker()
    snooze(world, worker, 5_000)
    due_ms = world.state().due_ms
    world.checking = False
    number = 0
    while world.time.ms < due_ms + 500:
        for _ in range(60):  # more than a turn takes
            number += 1
            world.submit(f"flood-{number}")
        world.turn(every_ms=50)
    assert world.state().phase == "ready"
