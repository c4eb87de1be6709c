"""Turns that come to nothing: what is undone, what stays read, and that nothing is lost or done twice."""

import pytest

from scheduler.core.reports import ReleaseReason
from scheduler.dispatcher.seat import Stage
from tests.dispatcher.fault_log import FaultLog, abort, fenced
from tests.dispatcher.lives import grant, run
from tests.dispatcher.world import World

AT = ("begin", "flush", "fence", "commit")


@pytest.mark.parametrize("step", AT)
@pytest.mark.parametrize("fault", [abort, fenced])
def test_a_failed_turn_changes_nothing_and_is_done_again(world, d1, worker, step, fault):
    world.submit("a")
    worker.offer()
    d1.log.fail(step, fault)
    world.turn()
    assert world.states() == {}
    assert worker.hear() == []
    world.until(lambda: "a" in world.states(), turns=20)
    world.turn(2)
    (lease,) = worker.leases()
    worker.done(lease)
    world.turn()
    assert world.state().phase == "succeeded"
    assert world.counts["submitted", "default"] == 1


def test_every_shard_adopts_again_after_an_abort(world, d1):
    world.submit("a")
    d1.log.fail("commit", abort)
    world.turn()
    assert set(d1.stages().values()) == {Stage.ADOPTING}
    assert d1.signals.failures["abort"] == 1
    world.until(d1.is_active)


def test_live_leases_are_sent_again_after_an_abort(world, d1, worker):
    lease = run(world, worker)
    world.submit("b")
    d1.log.fail("commit", abort)
    world.turn(4)
    assert worker.leases() == [lease]


def test_slots_taken_in_a_dropped_turn_are_given_back_and_used_once(world, d1, worker):
    worker.offer(2)
    world.turn()
    for job_id in ("a", "b", "c"):
        world.submit(job_id)
    d1.log.fail("commit", abort)
    world.turn()
    assert worker.hear() == []
    world.turn(4)
    assert len(worker.leases()) == 2
    assert sum(state.phase == "ready" for state in world.states().values()) == 1


def test_the_epochs_of_a_dropped_turn_are_given_anew(world, d1, worker):
    first = grant(world, worker)
    worker.release(first)
    worker.offer()
    d1.log.fail("commit", abort)
    world.turn(5)
    (second,) = worker.leases()[-1:]
    assert second.epoch == first.epoch + 1
    assert world.meta(first.shard).epoch == second.epoch


def test_renewals_read_in_a_dropped_turn_stay_read(world, d1, worker):
    lease = run(world, worker)
    world.wait(10_000)
    worker.beat(lease)
    world.submit("b")
    d1.log.fail("commit", abort)
    world.turn()
    entry = d1.engine.seats[lease.shard].leases.get("a", lease.epoch)
    assert d1.clock.mono_ms() - entry.read_at_ms <= 10
    assert entry.period_ms == 20_000


def test_a_dropped_turn_gives_no_fresh_period_to_a_lease_that_has_an_entry(world, d1, worker):
    run(world, worker)
    start = world.time.ms
    for number in range(6):
        world.wait(3_000)
        world.submit(f"job-{number}")
        d1.log.fail("commit", abort)
        world.turn(4)
    world.until(lambda: world.state().phase != "leased", turns=1_000, every_ms=50)
    assert world.time.ms - start <= 20_000 + 1_500


def test_a_lease_granted_in_a_dropped_turn_leaves_no_entry(world, d1, worker):
    worker.offer()
    world.submit("a")
    d1.log.fail("commit", abort)
    world.turn()
    assert len(d1.engine.seats[world.home("a")].leases) == 0


def test_a_report_that_ended_a_lease_in_a_dropped_turn_ends_it_in_the_next(world, d1, worker):
    lease = run(world, worker)
    worker.release(lease, ReleaseReason.CRASHED)
    for _ in range(3):
        d1.log.fail("commit", abort)
    world.turn(12)
    assert world.state().history.losses == 1
    assert len(world.state().history.attempts) == 1


def test_earlier_turns_that_only_moved_positions_stay_read(world, d1, worker):
    # Rewinding goes to the first offsets of the failed turn.
    lease = run(world, worker)
    world.wait(1_100)
    world.turn(2)
    entry = d1.engine.seats[lease.shard].leases.get("a", lease.epoch)
    worker.beat(lease)
    world.turn(every_ms=100)
    read_at_ms = entry.read_at_ms
    positions = dict(d1.engine.seats[lease.shard].positions)
    world.submit("b")
    d1.log.fail("commit", abort)
    world.turn()
    assert d1.engine.seats[lease.shard].positions == positions
    world.turn(3)
    assert entry.read_at_ms == read_at_ms


def test_scheduled_jobs_and_retries_of_a_dropped_turn_wake_in_the_next(world, d1, worker):
    lease = grant(world, worker, "a")
    worker.release(lease, ReleaseReason.SNOOZED, delay_ms=5_000)
    world.submit("b", run_at_ms=world.time.ms + 5_000)
    world.turn(2)
    world.wait(4_990, every_ms=100)
    for _ in range(4):
        d1.log.fail("commit", abort)
    world.wait(500, every_ms=10)
    assert world.state("a").phase == "ready"
    assert world.state("b").phase == "ready"


def test_the_transaction_after_an_abort_may_fail_too(world, d1):
    world.submit("a")
    for _ in range(10):
        d1.log.fail("begin", abort)
    world.turn(15)
    assert world.state().phase == "ready"


def test_an_abort_that_fails_starts_over_from_the_changelog(world, d1, worker):
    lease = run(world, worker)
    world.submit("b")
    d1.log.fail("commit", abort)
    d1.log.fail("abort", fenced)
    world.turn()
    assert set(d1.stages().values()) <= {Stage.RESTORING, Stage.CLAIMING}
    world.until(d1.is_active)
    assert world.state("b").phase == "ready"
    assert worker.leases() == [lease]


def test_fenced_clears_the_renewals_and_gives_a_fresh_period(world, d1, worker):
    lease = run(world, worker)
    world.wait(15_000)
    world.submit("b")
    d1.log.fail("commit", fenced)
    world.turn()
    assert d1.signals.failures["fenced"] == 1
    world.until(d1.is_active)
    entry = d1.engine.seats[lease.shard].leases.get("a", lease.epoch)
    assert (entry.period_ms, d1.clock.mono_ms() - entry.read_at_ms < 200) == (20_000, True)


def test_an_own_echo_of_before_the_abort_does_not_end_the_adoption(world, d1, worker):
    lease = run(world, worker)
    kept: list[tuple[int, bytes]] = []
    echo = d1.log.echo
    d1.log.echo = lambda shard, value: kept.append((shard, value))
    world.wait(20_500, every_ms=500)
    under_way = [each for each in kept if each[0] == lease.shard]
    assert under_way
    kept.clear()
    world.submit("b")
    d1.log.fail("commit", abort)
    world.turn(2)
    for shard, value in under_way:
        echo(shard, value)
    world.turn(2)
    assert set(d1.stages().values()) == {Stage.ADOPTING}
    d1.log.echo = echo
    for shard, value in kept:
        echo(shard, value)
    world.turn(2)
    assert d1.is_active()


def lost_and_regained(world: World, d1) -> None:
    d1.log.rejoin(range(world.shards))


def test_a_shard_that_is_lost_and_regained_at_once_goes_on(world, d1, worker):
    lease = run(world, worker)
    world.submit("b")
    lost_and_regained(world, d1)
    world.turn()
    world.until(d1.is_active)
    assert world.state("b").phase == "ready"
    assert worker.leases() == [lease]


def test_a_rebalance_moves_one_shard_and_leaves_the_others_alone(world, d1, worker):
    lease = run(world, worker)
    other = (lease.shard + 1) % world.shards
    d2 = world.join("d2", shards=[other])
    world.until(d2.is_active)
    assert set(d1.stages().values()) == {Stage.ACTIVE}
    assert set(d1.stages()) == set(range(world.shards)) - {other}
    assert set(d2.stages()) == {other}
    assert worker.hear() == []
    worker.done(lease)
    world.turn()
    assert world.state().phase == "succeeded"


def test_a_poll_that_says_an_input_lost_its_position_holds_it_and_goes_on(world, d1):
    from scheduler.dispatcher.ports import PositionLost

    d1.log.lost_positions.append(PositionLost("submit.default", 0, 500, 800, 900))
    world.turn()
    assert d1.signals.failures["position_lost"] == 1
    world.submit("a")
    world.turn(2)
    assert world.state().phase == "ready"


def test_the_producer_that_is_fenced_on_poll_starts_over(world, d1):
    d1.log.fail("poll", fenced)
    world.submit("a")
    world.turn()
    world.until(d1.is_active)
    world.turn(2)
    assert world.state().phase == "ready"


def slow(log: FaultLog) -> None:
    """Nothing: a step that only passes."""


def test_faults_at_every_turn_for_a_while_lose_nothing(world, d1, worker):
    jobs = [f"job-{n}" for n in range(60)]
    for number, job_id in enumerate(jobs):
        world.submit(job_id)
        d1.log.fail(AT[number % 4], (abort, slow, fenced, slow)[number % 4])
        worker.offer(2)
        world.turn(2)
        for lease in worker.leases():
            worker.done(lease)
    for _ in range(600):  # the faults that are left come up first
        worker.offer(5)
        world.turn(2)
        for lease in worker.leases():
            worker.done(lease)
    assert {state.phase for state in world.states().values()} == {"succeeded"}
    assert set(world.states()) == set(jobs)
    assert len(world.lifecycle()) == len(jobs)
