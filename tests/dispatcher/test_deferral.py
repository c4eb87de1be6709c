"""Ends of runs wait a little for others to share a transaction with; whatever fails meanwhile, none is lost."""

import pytest

from scheduler.core.inputs import Input
from scheduler.core.reports import Emit, Verdict
from scheduler.core.settings import QueueSettings
from scheduler.dispatcher.ports import Record
from tests.dispatcher.fault_log import FaultLog, abort, fenced, unknown_aborted, unknown_committed
from tests.dispatcher.lives import grant, run
from tests.dispatcher.world import World

WAIT_MS = 8  # a turn of the world takes 5


def deferring(**config) -> World:
    world = World(
        queues={"q": QueueSettings(emits=frozenset({"made"}))}, completions_wait_ms=WAIT_MS, **config
    )
    world.start()
    world.outlive()
    return world


@pytest.fixture
def world():
    world = deferring()
    yield world
    world.finish()


def finish_unseen(world: World, worker, job_id: str = "a", **fields):
    """Let a job's completion be decided, but not committed."""
    lease = run(world, worker, job_id)
    worker.done(lease, **fields)
    world.turn()
    assert world.state(job_id).phase == "leased"
    return lease


def ended_once(world: World, job_id: str = "a") -> bool:
    ends = [told for told in world.lifecycle() if (told.job_id, told.event) == (job_id, "succeeded")]
    return world.state(job_id).phase == "succeeded" and len(ends) == 1


# -- when it commits ----------------------------------------------------------------------------------------


def test_a_completion_alone_is_committed_when_its_wait_is_over(world, d1, worker):
    finish_unseen(world, worker)
    commits = d1.signals.commits
    world.turn()
    assert d1.signals.commits == commits
    world.turn()
    assert d1.signals.commits == commits + 1
    assert ended_once(world)


def test_it_joins_the_next_transaction(world, d1, worker):
    finish_unseen(world, worker)
    commits = d1.signals.commits
    world.submit("b")
    world.turn()
    assert d1.signals.commits == commits + 1
    assert ended_once(world)
    assert world.state("b").phase == "ready"


def test_the_wait_counts_from_the_first_decision(world, d1, worker):
    leases = [run(world, worker, job_id) for job_id in "abc"]
    for lease in leases:  # one a turn: each would put the commit off, if the wait began anew
        worker.done(lease)
        world.turn()
    assert ended_once(world, "a")


def test_a_freed_slot_is_used_before_the_completion_has_committed(world, d1, worker):
    finish_unseen(world, worker, freed=worker.freed())
    world.submit("b")
    world.turn()
    (lease,) = worker.leases()
    assert lease.job_id == "b"
    assert ended_once(world)


@pytest.mark.parametrize("fields", [{}, {"freed": True}])
def test_a_job_costs_about_one_transaction_instead_of_two(d1, world, worker, fields):
    def transactions(wait_ms: int) -> int:
        world = deferring() if wait_ms else World()
        world.checking = False
        dispatcher = world.dispatchers.get("d1") or world.start()
        worker = world.worker()
        worker.offer(50)
        world.turn(2)
        before = dispatcher.signals.commits
        for number in range(50):  # one each 10 ms, and its completion 5 ms after it
            world.submit(f"job-{number}")
            world.turn()
            for lease in worker.leases():
                worker.done(lease, freed=worker.freed() if fields else None)
            world.turn()
        world.turn(3)
        assert {state.phase for state in world.states().values()} == {"succeeded"}
        world.finish()
        return dispatcher.signals.commits - before

    assert transactions(0) >= 100
    assert transactions(WAIT_MS) <= 55


# -- what may wait ------------------------------------------------------------------------------------------


def said(worker, lease, how: str) -> None:
    if how == "done":
        worker.done(lease)
    elif how == "emits":
        worker.done(lease, emits=(Emit("made", b"k", b"v"),))
    elif how == "busy":
        worker.release(lease)
    elif how == "checkpoint":
        worker.checkpoint(lease, b"1")
    elif how == "stale":
        worker.done(lease)
        worker.done(lease)
    else:
        worker.fail(lease, Verdict(how))


@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ("done", True),
        ("cancel", True),
        ("emits", False),
        ("retry", False),
        ("fail", False),
        ("busy", False),
        ("checkpoint", False),
        ("stale", False),
    ],
)
def test_only_ends_wait_that_nobody_waits_for(world, d1, worker, how, waits):
    lease = run(world, worker)
    commits = d1.signals.commits
    said(worker, lease, how)
    world.turn()
    assert d1.signals.commits == commits + (not waits)


def test_a_late_completion_does_not_wait(world, d1, worker):
    lease = run(world, worker)
    world.wait(25_000)
    assert world.state().phase == "ready"
    commits = d1.signals.commits
    worker.done(lease)
    world.turn()
    assert d1.signals.commits == commits + 1
    assert ended_once(world)


@pytest.mark.parametrize(("config", "size"), [({"turn_records": 3}, 1), ({"turn_bytes": 1_000}, 400)])
def test_what_waits_is_bounded_by_the_budget_of_a_turn(config, size):
    world = deferring(**config)
    worker = world.worker()
    leases = [run(world, worker, job_id) for job_id in "abcd"]
    world.wait(20)
    d1 = world.dispatchers["d1"]
    commits = d1.signals.commits
    for lease in leases[:3]:
        worker.done(lease, result=b"x" * size)
        world.turn(every_ms=0)
    assert d1.signals.commits == commits + 1
    assert all(ended_once(world, job_id) for job_id in "abc")
    worker.done(leases[3])
    world.turn(every_ms=0)
    assert d1.signals.commits == commits + 1, "the budget is that of one transaction"
    world.turn(3)
    world.finish()


def test_nothing_waits_while_an_input_is_suspected(world, d1, worker):
    lease = run(world, worker)
    d1.engine._suspicion.blame(Record(Input.SUBMIT_BULK, lease.shard, 99, 0, None, None))
    worker.done(lease)
    world.turn()
    assert ended_once(world)


# -- when something fails meanwhile -------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["begin", "flush", "fence", "commit"])
@pytest.mark.parametrize("fault", [abort, fenced])
@pytest.mark.parametrize("joined", [True, False])
def test_a_completion_whose_transaction_fails_is_read_again(world, d1, worker, step, fault, joined):
    finish_unseen(world, worker)
    if joined:
        world.submit("b")
    d1.log.fail(step, fault)
    world.turn(3)
    assert d1.signals.failures[fault.__name__] == 1
    world.until(d1.is_active)
    world.turn(3)
    assert ended_once(world)


def test_a_completion_that_is_read_again_waits_again(world, d1, worker):
    finish_unseen(world, worker)
    d1.log.fail("commit", abort)
    world.time.ms += WAIT_MS
    world.turn()
    assert d1.signals.failures["abort"] == 1
    world.turn()
    assert world.state().phase == "leased"
    world.turn(2)
    assert ended_once(world)


def test_a_crash_at_a_later_input_reads_it_again(world, d1, worker):
    finish_unseen(world, worker)
    take = d1.engine._intake.take

    def crashing(shard, moment, record):
        if record.key == b"bad":
            raise ZeroDivisionError
        return take(shard, moment, record)

    d1.engine._intake.take = crashing
    world.submit("bad")
    world.turn(6)
    (dead,) = world.dead_letters()
    assert dead["refusal"] == "crashed_dispatcher"
    assert ended_once(world)


def test_a_turn_of_beats_after_it_does_not_settle_it(world, d1, worker):
    # Such a turn alone is never read again; with a completion that waits, both are.
    other = run(world, worker, "b")
    finish_unseen(world, worker)
    worker.beat(other)
    world.turn()
    d1.log.fail("commit", abort)
    world.turn(5)
    assert d1.signals.failures["abort"] == 1
    assert ended_once(world)


@pytest.mark.parametrize("fault", [unknown_committed, unknown_aborted])
def test_an_unknown_outcome_counts_it_once(world, d1, worker, fault):
    finish_unseen(world, worker)
    d1.log.fail("commit", fault)
    world.turn(3)
    world.until(d1.is_active)
    world.turn(3)
    assert ended_once(world)


def on_two_shards(world: World, worker):
    """Let completions of two shards wait; return their leases."""
    jobs = ["a", next(f"b-{n}" for n in range(99) if world.home(f"b-{n}") != world.home("a"))]
    leases = [run(world, worker, job_id) for job_id in jobs]
    world.wait(20)
    for lease in leases:
        worker.done(lease)
    world.turn()
    assert [world.state(job_id).phase for job_id in jobs] == ["leased", "leased"]
    return leases


def test_a_shard_that_goes_meanwhile_takes_its_own_along(world, d1, worker):
    gone, kept = on_two_shards(world, worker)
    d2 = world.join("d2", shards=[gone.shard])
    commits = d2.signals.commits
    d1.engine.turn()
    world.time.ms += WAIT_MS
    d1.engine.turn()
    assert world.state(kept.job_id).phase == "succeeded"
    assert world.state(gone.job_id).phase == "leased"
    world.until(d2.is_active)
    world.turn(3)
    assert d2.signals.commits > commits
    assert ended_once(world, gone.job_id)
    assert ended_once(world, kept.job_id)


def test_a_shard_that_goes_is_not_among_the_suspects_of_what_remains(world, d1, worker):
    gone, kept = on_two_shards(world, worker)
    world.join("d2", shards=[gone.shard])
    d1.log.refused = lambda record: record.topic == "lifecycle"
    world.time.ms += WAIT_MS
    d1.engine.turn()
    d1.log.refused = lambda record: False
    assert {shard for shard, _, _ in d1.engine._suspicion.failed_once} == {kept.shard}
    world.turn(10)


def test_a_shard_that_is_lost_and_regained_meanwhile_reads_it_again(world, d1, worker):
    lease = finish_unseen(world, worker)
    d1.log.rejoin([lease.shard])
    world.turn()
    assert d1.engine.seats[lease.shard].stage.name != "ACTIVE"
    world.until(d1.is_active)
    world.turn(3)
    assert ended_once(world)


def test_an_owner_that_was_replaced_meanwhile_can_not_commit_it(world, d1, worker):
    finish_unseen(world, worker)
    d2 = world.join("d2", shards=[])

    def replaced(log: FaultLog) -> None:
        world.group.evicted.add("d1")
        world.group.assign("d2", range(world.shards))
        for _ in range(60):  # what d1 has open holds the restore back until it is fenced
            d2.engine.turn()
            world.time.ms += 50
        assert d2.is_active()
        assert ended_once(world)

    d1.log.fail("fence", replaced)
    world.time.ms += WAIT_MS
    d1.engine.turn()
    assert d1.signals.failures.total() == 1
    world.turn(10)
    assert ended_once(world)


def test_leaving_commits_it(world, d1, worker):
    finish_unseen(world, worker)
    d1.engine.leave()
    assert ended_once(world)


def test_a_killed_owner_loses_none(world, worker):
    finish_unseen(world, worker)
    world.kill("d1")
    world.start("d2")
    world.turn(3)
    assert ended_once(world)


def test_an_expiry_that_comes_meanwhile_finds_no_lease(world, d1, worker):
    lease = grant(world, worker)
    world.wait(9_000)
    echoed: list[tuple[int, bytes]] = []
    d1.log.echo, echo = lambda shard, value: echoed.append((shard, value)), d1.log.echo
    world.wait(1_050, every_ms=50)
    assert lease.shard in {shard for shard, _ in echoed}
    worker.done(lease)
    world.turn(every_ms=0)
    for shard, value in echoed:
        echo(shard, value)
    world.turn()
    assert world.state().phase == "leased"
    d1.log.echo = echo
    world.turn(3)
    assert ended_once(world)
    assert world.state().history.undelivered == 0
