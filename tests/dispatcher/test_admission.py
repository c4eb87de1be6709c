"""What becomes of a job record that reaches its home shard."""

import pytest

from scheduler.core import bounds
from scheduler.core.spec import Band

TOPICS = {Band.INTERACTIVE: "interactive", Band.DEFAULT: "default", Band.BULK: "bulk"}


def stored_keys(d1, job_id: str, shard: int) -> set[bytes]:
    store = d1.engine.seats[shard].store
    return {key for key, _ in store.scan(b"", b"\xff", 1_000) if job_id.encode() in key}


@pytest.mark.parametrize("band", list(Band))
def test_a_job_is_ready_in_the_band_of_its_topic(world, band):
    world.submit("a", band=band, priority=2, labels={"k": "v"}, tenant="acme", queue="mail")
    world.turn(2)
    state = world.state("a")
    assert (state.phase, state.admitted.band, state.admitted.priority) == ("ready", band, 2)
    assert (state.admitted.tenant, state.admitted.queue, state.admitted.labels) == (
        "acme",
        "mail",
        {"k": "v"},
    )
    assert world.counts["submitted", TOPICS[band]] == 1


def test_a_repeat_changes_nothing_and_is_counted(world):
    world.submit("a")
    world.turn(2)
    before = world.state("a")
    world.submit("a", priority=9, labels={"other": "1"}, run_at_ms=world.time.ms + 5_000)  # not content
    world.turn(2)
    assert world.state("a") == before
    assert world.counts["repeated",] == 1
    assert world.lifecycle() == []


def test_a_repeat_of_a_finished_job_does_not_run_it_again(world, worker):
    world.submit("a")
    worker.offer(2)
    world.turn(2)
    worker.done(worker.leases()[0])
    world.turn(2)
    world.submit("a")
    world.turn(3)
    assert world.state("a").phase == "succeeded"
    assert worker.leases() == []


@pytest.mark.parametrize(
    "other",
    [{"payload": b"[]"}, {"type": "x.other"}, {"content_type": "text/plain"}],
    ids=lambda other: next(iter(other)),
)
def test_other_content_under_the_same_id_is_a_conflict_and_the_first_wins(world, other):
    world.submit("a")
    world.turn(2)
    before = world.state("a")
    world.submit("a", **other)
    world.turn(2)
    assert world.state("a") == before
    (told,) = world.lifecycle()
    assert (told.event, told.job_id) == ("conflict", "a")
    assert told.source.startswith("jobs.submit.default/")
    assert world.counts["conflict",] == 1


def test_two_contents_in_one_turn_are_a_conflict_too(world):
    world.submit("a", payload=b"1")
    world.submit("a", payload=b"2")
    world.submit("a", payload=b"1")
    world.turn(2)
    assert [told.event for told in world.lifecycle()] == ["conflict"]
    assert world.counts["repeated",] == 1


def test_a_job_that_expired_before_it_came_never_runs(world, worker):
    worker.offer()
    world.submit("a", expires_at_ms=world.time.ms)
    world.turn(3)
    state = world.state("a")
    assert (state.phase, state.end.reason) == ("expired", "expired")
    assert worker.leases() == []
    assert [told.event for told in world.lifecycle()] == ["expired"]


def test_a_job_expires_while_it_waits(world, worker):
    world.submit("a", expires_at_ms=world.time.ms + 10_000)
    world.submit("later", run_at_ms=world.time.ms + 60_000, expires_at_ms=world.time.ms + 20_000)
    world.wait(9_000)
    assert world.state("a").phase == "ready"
    world.wait(2_000)
    assert world.state("a").phase == "expired"
    assert world.state("later").phase == "scheduled"
    world.wait(10_000)
    assert world.state("later").phase == "expired"
    worker.offer(2)
    world.turn(3)
    assert worker.leases() == []


@pytest.mark.parametrize("late_ms", [-1, 0, 1, 3_600_000, None], ids=str)
def test_a_due_time_around_now_or_long_past_runs_once_and_at_once(world, worker, late_ms):
    run_at_ms = 1 if late_ms is None else world.time.ms - late_ms
    worker.offer(3)
    world.submit("a", run_at_ms=run_at_ms)
    world.turn(3)
    (lease,) = worker.leases()
    worker.done(lease)
    world.turn(2)
    world.kill("d1")
    world.start("d2")  # an empty disk
    worker.offer(3)
    world.wait(3_000)
    assert worker.leases() == []
    assert world.state("a").phase == "succeeded"


@pytest.mark.parametrize(
    "due_ms",
    [25 * bounds.DAY_MS, 50 * bounds.DAY_MS, 2_147_483_648_000, 4_070_908_800_000, bounds.TIME_MAX_MS],
    ids=["25 days", "50 days", "2038", "2099", "9999"],
)
def test_the_far_future_is_slept_through(world, worker, due_ms):
    due_ms = due_ms if due_ms > 10**12 else world.time.ms + due_ms
    worker.offer()
    world.submit("a", run_at_ms=due_ms)
    world.turn(5)
    assert (world.state("a").phase, world.state("a").due_ms) == ("scheduled", due_ms)
    assert worker.leases() == []
    world.time.ms = due_ms - 1
    world.turn(2, every_ms=0)
    worker.offer()
    world.turn(2, every_ms=0)
    assert worker.leases() == []
    world.time.ms = due_ms
    world.turn(3, every_ms=0)
    assert len(worker.leases()) == 1


def test_a_time_beyond_9999_is_refused_by_its_field(world):
    world.submit("a", run_at_ms=bounds.TIME_MAX_MS + 1)
    world.turn(2)
    (dead,) = world.dead_letters()
    assert (dead["reason"], dead["refusal"]) == ("quarantined", "out_of_bounds")
    assert "/run_at_ms" in dead["detail"]
    assert "a" not in world.states()


def test_a_forgotten_id_that_returns_starts_with_a_higher_epoch(world, worker):
    worker.offer(2)
    world.submit("a")
    world.turn(2)
    first = worker.leases()[0]
    worker.done(first)
    world.turn(2)
    world.wait(2 * bounds.HOUR_MS, every_ms=60_000)
    assert "a" not in world.states()
    worker.offer()
    world.submit("a")
    world.turn(3)
    assert worker.leases()[0].epoch > first.epoch


def test_a_job_granted_in_the_turn_of_its_submit_never_touches_the_ready_index(world, d1, worker):
    written: list[bytes] = []
    shard = world.home("a")
    store = d1.engine.seats[shard].store
    write = store.write
    store.write = lambda puts, deletes, offset, at_ms: (
        written.extend(key for key, _ in puts),
        write(puts, deletes, offset, at_ms),
    )
    worker.offer()
    world.turn(2)
    world.submit("a")
    world.turn()
    assert len(worker.leases()) == 1
    assert not [key for key in written if key.startswith(b"r")]


def test_a_wall_clock_that_runs_ahead_starts_nothing_early(world, d1, worker):
    d1.clock.ahead_ms = 3_600_000
    worker.offer(5)
    world.submit("a", run_at_ms=world.time.ms + 10_000)
    for _ in range(8):
        worker.offer(5)
        world.wait(1_000)
    assert worker.leases() == []
    worker.offer(5)
    world.wait(3_000)
    assert len(worker.leases()) == 1


def test_a_wall_clock_that_runs_ahead_starts_nothing_early_at_a_take_over_either(world, worker):
    # Before its first own echo the new owner has only its wall clock, and it admits already.
    world.kill("d1")
    d2 = world.join("d2")
    d2.clock.ahead_ms = 3_600_000
    world.submit("a", run_at_ms=world.time.ms + 20_000)
    world.submit("b", expires_at_ms=world.time.ms + 60_000)
    world.until(d2.is_active)
    due_ms = world.time.ms + 15_000
    while world.time.ms < due_ms:
        worker.offer(1, lowest_band=0)
        world.submit(f"other-{world.time.ms}", band=Band.INTERACTIVE)
        world.turn(every_ms=500)
    assert world.state("a").phase == "scheduled"
    assert world.state("b").phase == "ready"
