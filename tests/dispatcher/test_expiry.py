"""Expiry by echo: no lease ends while a renewal may still be under way, and each one ends in the end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.codec.reports import decode_report, encode_report
from scheduler.core.reports import Echo
from scheduler.core.settings import QueueSettings
from tests.dispatcher.lives import grant, grant_again, run
from tests.dispatcher.world import World

FIRST_MS, LEASE_MS = 10_000, 20_000


def echoes(world: World, shard: int) -> list[tuple[int, Echo]]:
    reports = ((stored.at_ms, decode_report(stored.value)) for stored in world.broker.log("reports", shard))
    return [(at_ms, report) for at_ms, report in reports if isinstance(report, Echo)]


def lease_ends(world: World, job_id: str = "a") -> int:
    """Return when the lease expired."""
    world.until(lambda: world.state(job_id).phase != "leased", turns=5_000, every_ms=50)
    return world.time.ms


def test_a_lease_that_nobody_speaks_of_expires_after_the_first_period(world, worker):
    grant(world, worker)
    start = world.time.ms
    assert FIRST_MS - 20 <= lease_ends(world) - start <= FIRST_MS + 1_200
    state = world.state()
    assert (state.phase, state.history.undelivered, state.history.losses) == ("ready", 1, 0)
    assert [attempt.outcome for attempt in state.history.attempts] == ["undelivered"]


def test_after_the_first_renewal_it_expires_after_its_period(world, worker):
    run(world, worker)
    start = world.time.ms
    assert LEASE_MS - 20 <= lease_ends(world) - start <= LEASE_MS + 1_200
    state = world.state()
    assert (state.phase, state.history.undelivered, state.history.losses) == ("ready", 0, 1)
    assert [attempt.outcome for attempt in state.history.attempts] == ["lost"]


def test_the_period_is_that_of_the_queue():
    world = World(queues={"slow": QueueSettings(lease_ms=60_000)})
    world.start()
    run(world, world.worker(), queue="slow")
    start = world.time.ms
    assert 60_000 - 20 <= lease_ends(world) - start <= 61_200


def hold_echoes(world: World) -> list[tuple[int, bytes]]:
    kept: list[tuple[int, bytes]] = []
    world.dispatchers["d1"].log.echo = lambda shard, value: kept.append((shard, value))
    return kept


def let_go(world: World, kept: list[tuple[int, bytes]], which: slice = slice(None)) -> None:
    for shard, value in kept[which]:
        world.broker.append("reports", shard, None, value, at_ms=world.time.ms)
    kept.clear()


def test_nothing_expires_without_an_echo_however_long_it_takes(world, worker):
    grant(world, worker)
    kept = hold_echoes(world)
    world.wait(200_000, every_ms=5_000)
    assert world.state().phase == "leased"
    assert kept
    let_go(world, kept, slice(-1, None))
    world.turn()
    assert world.state().phase == "ready"


def test_a_renewal_read_before_the_echo_keeps_the_lease(world, worker):
    lease = grant(world, worker)
    kept = hold_echoes(world)
    world.wait(FIRST_MS + 5_000)
    worker.beat(lease)  # appended before the echo, though far too late by any clock
    let_go(world, kept)
    world.turn()
    assert world.state().phase == "leased"
    assert world.state().grant.started


def test_an_echo_produced_before_the_whole_period_was_over_ends_nothing(world, worker):
    lease = run(world, worker)
    kept = hold_echoes(world)
    world.wait(LEASE_MS + 3_000)
    worker.beat(lease)
    world.turn()
    renewed = world.time.ms
    let_go(world, kept)  # all of them were produced before this renewal was read, or soon after
    world.wait(LEASE_MS - 1_000)
    let_go(world, kept)
    world.turn()
    assert world.state().phase == "leased"
    del world.dispatchers["d1"].log.echo
    assert lease_ends(world) - renewed >= LEASE_MS


def test_an_echo_sent_for_one_lease_does_not_end_another_that_was_renewed_later(world, worker):
    one, other = [f"job-{n}" for n in range(100) if world.home(f"job-{n}") == 0][:2]
    first, second = grant(world, worker, one), grant(world, worker, other)
    worker.beat(first, second)
    world.turn()
    world.wait(2_000)
    worker.beat(second)
    world.turn()
    renewed = world.time.ms
    lease_ends(world, one)
    assert world.state(other).phase == "leased"
    lease_ends(world, other)
    assert world.time.ms - renewed >= LEASE_MS - 100


def test_an_echo_that_is_slow_counts_from_when_it_was_produced(world, worker):
    run(world, worker)
    read_ms = world.time.ms
    kept = hold_echoes(world)
    world.wait(LEASE_MS + 2_000, every_ms=100)
    early = kept[:1]
    assert early
    kept.clear()
    world.wait(30_000)
    kept.clear()
    let_go(world, early)
    world.turn()
    assert world.state().phase == "ready"  # produced L after the renewal was read
    assert world.time.ms - read_ms > LEASE_MS


def test_an_echo_of_another_owner_says_nothing(world, worker):
    grant(world, worker)
    hold_echoes(world)
    world.wait(FIRST_MS + 5_000)
    for owner in ("d2", ""):
        for sequence in range(20):
            value = encode_report(Echo(owner, sequence))
            world.broker.append("reports", world.home("a"), None, value, at_ms=world.time.ms)
    world.turn(2)
    assert world.state().phase == "leased"


def test_an_echo_with_a_number_that_was_never_sent_says_nothing(world, worker):
    grant(world, worker)
    hold_echoes(world)
    world.wait(FIRST_MS + 5_000)
    for sequence in (0, 10_000, 1 << 60):
        value = encode_report(Echo("d1", sequence))
        world.broker.append("reports", world.home("a"), None, value, at_ms=world.time.ms)
    world.turn(2)
    assert world.state().phase == "leased"


def test_an_echo_read_twice_counts_once(world, worker):
    lease = run(world, worker)
    world.wait(LEASE_MS - 500)
    kept = hold_echoes(world)
    world.wait(1_000, every_ms=100)
    again = list(kept)
    let_go(world, kept)
    world.turn()
    assert world.state().phase == "ready"
    second = grant_again(world, worker, takes_suspect=True)
    let_go(world, again)
    world.turn(2)
    assert world.state().phase == "leased"
    assert second.epoch > lease.epoch


def test_at_most_one_echo_a_second_and_only_where_something_looks_due(world, worker):
    shards = {grant(world, worker, job_id).shard for job_id in ("a", "b")}
    quiet = set(range(world.shards)) - shards
    before = {shard: len(echoes(world, shard)) for shard in range(world.shards)}
    world.wait(FIRST_MS - 500, every_ms=100)
    assert {shard: len(echoes(world, shard)) for shard in range(world.shards)} == before
    kept = hold_echoes(world)
    world.wait(10_000, every_ms=20)
    for shard in shards:
        assert 9 <= len([each for each in kept if each[0] == shard]) <= 11
    assert not [each for each in kept if each[0] in quiet]


def test_echoes_end_when_nothing_is_due_any_more(world, worker):
    grant(world, worker)
    lease_ends(world)
    world.turn(5)
    before = len(echoes(world, world.home("a")))
    world.wait(30_000)
    assert len(echoes(world, world.home("a"))) == before


def test_the_wall_clock_decides_nothing(world, d1, worker):
    lease = run(world, worker)
    for ahead_ms in (86_400_000, -86_400_000, 0):
        d1.clock.ahead_ms = ahead_ms
        world.wait(LEASE_MS - 2_000)
        worker.beat(lease)
        world.turn(2)
    assert world.state().phase == "leased"


def test_ten_undelivered_leases_end_a_job(world, worker):
    grant(world, worker)
    for number in range(1, 11):
        lease_ends(world)
        state = world.state()
        assert state.history.undelivered == number
        if number < 10:
            assert state.phase == "ready"
            assert grant_again(world, worker, takes_suspect=True).attempt == 1
    assert (state.phase, state.end.reason) == ("failed", "undeliverable")
    (dead,) = world.dead_letters()
    assert (dead["reason"], dead["undelivered"]) == ("undeliverable", "10")


def test_three_losses_end_a_job(world, worker):
    run(world, worker)
    for number in range(1, 4):
        lease_ends(world)
        state = world.state()
        assert state.history.losses == number
        if number < 3:
            worker.beat(grant_again(world, worker, takes_suspect=True))
            world.turn(2)
    assert (state.phase, state.end.reason) == ("failed", "lost")


def test_many_leases_expire_in_bounded_batches(world, worker):
    world.checking = False
    worker.offer(1_024)
    worker.offer(1_024, shard=1, sequence=1)
    jobs = [f"job-{n}" for n in range(9_000) if world.home(f"job-{n}") == 0][:2_000]
    for job_id in jobs:
        world.submit(job_id)
    world.turn(4)
    assert len(worker.leases()) == 2_000
    world.wait(FIRST_MS + 6_000)
    assert all(state.phase == "ready" for state in world.states().values())
    world.checking = True
    world.turn()


@settings(max_examples=60, deadline=None)
@given(
    events=st.lists(
        st.sampled_from(["beat", "done", "fail", "echo", "turn", "offer"]), min_size=1, max_size=6
    ),
    offset_ms=st.sampled_from([-1, 0, 1]),
)
def test_around_the_expiry_a_lease_is_either_ended_by_its_worker_or_granted_anew(events, offset_ms):
    # Late messages in any order around the instant of expiry: never both an accepted completion and a new lease.
    world = World(shards=1)
    world.start()
    worker, other = world.worker(), world.worker(inbox=0, name="other")
    lease = run(world, worker)
    kept = hold_echoes(world)
    world.time.ms = world.time.ms - 5 + LEASE_MS + offset_ms - 5
    world.turn(1)
    for event in events:
        if event == "beat":
            worker.beat(lease)
        elif event == "done":
            worker.done(lease)
        elif event == "fail":
            worker.fail(lease)
        elif event == "offer":
            other.offer(takes_suspect=True)
        elif event == "echo":
            let_go(world, kept)
        else:
            world.turn(every_ms=1)
    let_go(world, kept)
    world.turn(3, every_ms=1)
    anew = [one for one in other.leases() if one.epoch > lease.epoch]
    state = world.state()
    if anew:
        assert (state.phase, state.epoch) == ("leased", anew[0].epoch)
    else:
        assert state.epoch == lease.epoch
    world.finish()


@pytest.mark.parametrize("cut", range(6))
def test_a_lease_expires_in_time_whoever_owns_the_shard(world, worker, cut):
    # The owner dies again and again; each successor gives a whole fresh period, counted from its restore.
    run(world, worker)
    for number in range(2, 2 + cut):
        world.wait(LEASE_MS - 3_000)
        world.kill(f"d{number - 1}")
        world.start(f"d{number}")
        assert world.state().phase == "leased"
    start = world.time.ms
    assert lease_ends(world) - start <= LEASE_MS + 2_500
