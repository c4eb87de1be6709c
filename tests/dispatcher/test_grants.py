"""Granting: epochs, tokens, suspects, order."""

import pytest

from scheduler.codec.job import decode_job
from scheduler.core.notices import Lease
from scheduler.core.reports import ReleaseReason
from scheduler.core.settings import QueueSettings
from scheduler.core.spec import Band
from tests.dispatcher.world import World


def grant(world: World, worker, job_id: str = "a", **fields) -> Lease:
    world.submit(job_id, **fields)
    worker.offer()
    world.turn(2)
    (lease,) = worker.leases()
    return lease


def test_a_lease_says_everything_that_the_worker_needs(world, worker):
    offer = worker.offer(3)
    spec = world.submit("a", timeout_ms=7_000, max_attempts=4)
    world.turn(2)
    (lease,) = worker.leases()
    assert (lease.job_id, lease.attempt, lease.max_attempts) == ("a", 1, 4)
    assert (lease.offer, lease.boot_id) == (offer.sequence, worker.sender.boot_id)
    assert (lease.lease_ms, lease.timeout_ms) == (20_000, 7_000)
    assert (lease.shard, lease.suspect, lease.checkpoint) == (world.home("a"), False, b"")
    assert decode_job(lease.spec) == spec
    given = world.state("a").grant
    assert (given.epoch, given.token, given.worker) == (lease.epoch, lease.token, "w")
    assert not given.started


def test_the_lease_period_is_a_setting_of_the_queue():
    world = World(queues={"slow/*": QueueSettings(lease_ms=60_000)})
    world.start()
    assert grant(world, world.worker(), queue="slow/video").lease_ms == 60_000


def test_epochs_rise_over_the_shard_and_each_grant_has_its_own_token(world, worker):
    seen: dict[int, list[int]] = {}
    tokens = set()
    for number in range(12):
        lease = grant(world, worker, f"job-{number}")
        seen.setdefault(lease.shard, []).append(lease.epoch)
        tokens.add(lease.token)
        worker.release(lease, ReleaseReason.BUSY)
        world.turn(2)
        worker.offer()
        world.turn()
        (again,) = worker.leases()
        seen[again.shard].append(again.epoch)
        tokens.add(again.token)
        worker.done(again)
        world.turn()
    assert all(epochs == sorted(set(epochs)) for epochs in seen.values())
    assert len(tokens) == 24
    assert all(len(token) == 16 for token in tokens)


def test_epochs_go_on_after_a_take_over(world, worker):
    first = grant(world, worker)
    worker.release(first)
    world.turn(2)
    world.kill("d1")
    world.start("d2")
    worker.offer()
    world.turn(2)
    (second,) = worker.leases()
    assert second.epoch > first.epoch
    assert world.meta(world.home("a")).epoch == second.epoch


def test_a_job_is_granted_in_the_turn_that_reads_its_submit(world, worker):
    worker.offer()
    world.turn(2)
    world.submit("a")
    world.turn(1)
    assert len(worker.leases()) == 1


def test_work_spreads_over_workers(world):
    workers = [world.worker(name=f"w{n}", inbox=n) for n in range(3)]
    for one in workers:
        one.offer(4)
    for number in range(6):
        world.submit(f"job-{number}")
    world.turn(2)
    assert [len(one.leases()) for one in workers] == [2, 2, 2]


def test_order_is_by_priority_then_append_time_over_all_shards(world, worker):
    priorities = [3, 3, 0, 9, 3, 1, 3, 0]
    for number, priority in enumerate(priorities):
        world.submit(f"job-{number}", priority=priority)
        world.turn(every_ms=1)
    order = []
    for _ in priorities:
        worker.offer()
        world.turn(2)
        order += [lease.job_id for lease in worker.leases()]
    assert order == [f"job-{n}" for n in (2, 7, 5, 0, 1, 4, 6, 3)]


def test_interactive_goes_before_bulk_and_a_reserved_slot_is_left_for_it(world):
    reserved, anyone = world.worker(inbox=0), world.worker(inbox=1)
    reserved.offer(1, lowest_band=0)
    anyone.offer(1)
    world.submit("bulk", band=Band.BULK)
    world.submit("also", band=Band.BULK)
    world.turn(2)
    assert reserved.leases() == []
    assert len(anyone.leases()) == 1
    world.submit("urgent", band=Band.INTERACTIVE)
    world.turn(2)
    assert [lease.job_id for lease in reserved.leases()] == ["urgent"]


def test_urgent_work_uses_reserved_slots_first(world):
    anyone, reserved = world.worker(inbox=0), world.worker(inbox=1)
    anyone.offer(1)
    reserved.offer(1, lowest_band=0)
    world.submit("urgent", band=Band.INTERACTIVE)
    world.turn(2)
    assert [lease.job_id for lease in reserved.leases()] == ["urgent"]
    assert anyone.leases() == []


def test_the_most_reserved_slot_is_used_first(world):
    default, interactive = world.worker(inbox=0), world.worker(inbox=1)
    default.offer(1, lowest_band=1)
    interactive.offer(1, lowest_band=0)
    world.submit("urgent", band=Band.INTERACTIVE)
    world.turn(2)
    assert [lease.job_id for lease in interactive.leases()] == ["urgent"]
    assert default.leases() == []


def test_a_pool_gets_only_the_work_of_its_queues():
    world = World(queues={"gpu": QueueSettings(pool="gpu")})
    world.start()
    plain, gpu = world.worker(), world.worker(pool="gpu")
    plain.offer(5)
    gpu.offer(5)
    world.submit("a", queue="gpu")
    world.submit("b", queue="mail")
    world.turn(2)
    assert [lease.job_id for lease in gpu.leases()] == ["a"]
    assert [lease.job_id for lease in plain.leases()] == ["b"]


# -- suspects ------------------------------------------------------------------------------------------------


def lose(world: World, worker, job_id: str) -> None:
    lease = grant(world, worker, job_id)
    worker.release(lease, ReleaseReason.CRASHED)
    world.turn(2)
    worker.hear()


@pytest.mark.parametrize("takes", [False, True])
def test_a_job_with_a_loss_goes_only_to_an_offer_that_takes_a_suspect(world, worker, takes):
    lose(world, worker, "a")
    worker.offer(3, takes_suspect=takes)
    world.turn(2)
    leases = worker.leases()
    assert [lease.suspect for lease in leases] == ([True] if takes else [])


def test_an_offer_takes_one_suspect(world, worker):
    for job_id in ("a", "b", "c"):
        lose(world, worker, job_id)
    worker.offer(5, takes_suspect=True)
    world.turn(3)
    assert len(worker.leases()) == 1
    other = world.worker(inbox=1)
    other.offer(5, takes_suspect=True)
    world.turn(3)
    assert len(other.leases()) == 1


def test_the_rest_of_such_an_offer_serves_others(world, worker):
    lose(world, worker, "a")
    lose(world, worker, "b")
    for number in range(3):
        world.submit(f"job-{number}")
    worker.offer(4, takes_suspect=True)
    world.turn(3)
    assert sorted(lease.suspect for lease in worker.leases()) == [False, False, False, True]


def test_offers_that_fit_nothing_are_not_tried_one_by_one(world, d1, worker):
    lose(world, worker, "a")
    world.submit("bulk", band=Band.BULK)
    for number in range(100):
        world.worker(inbox=number % 4).offer(3, lowest_band=number % 2)
    tried = 0
    matcher = d1.engine._fleet.matcher
    first = matcher.first

    def counted(*args, **how):
        nonlocal tried
        tried += 1
        return first(*args, **how)

    matcher.first = counted
    world.turn()
    assert tried <= 3
    worker.offer(1, takes_suspect=True)
    world.turn(2)
    assert len(worker.leases()) == 1


# -- a record that is gone --------------------------------------------------------------------------------------


def test_a_job_whose_record_is_gone_is_dead_lettered_and_takes_no_slot(world, d1, worker):
    world.submit("a")
    world.turn(2)
    shard = d1.engine.seats[world.home("a")].shard
    shard.drop_spec("a")
    world.checking = False
    world.turn(2)
    world.submit("b")
    worker.offer(1)
    world.turn(3)
    assert world.state("a").phase == "failed"
    assert [dead["reason"] for dead in world.dead_letters()] == ["spec_missing"]
    assert [lease.job_id for lease in worker.leases()] == ["b"]
