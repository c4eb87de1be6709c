"""Inputs whose next record is gone are held; what an operator gives up is counted, told, and gone beyond at once."""

import pytest

from scheduler.core.inputs import Input
from scheduler.core.reports import ReleaseReason
from scheduler.dispatcher.ports import PositionLost
from tests.dispatcher.fault_log import abort
from tests.dispatcher.lives import grant
from tests.dispatcher.world import World

GONE = 7
PLACE = ("submit.default", 1)


@pytest.fixture
def world():
    world = World(accepted_losses={PLACE: GONE})
    d1 = world.start()
    world.outlive()
    d1.log.silent.add((1, Input.SUBMIT_DEFAULT))
    for _ in range(GONE):
        world.broker.append("submit.default", 1, None, b"never read", at_ms=world.time.ms)
    yield world
    world.finish()


def lose(d1, wanted=0, low=GONE, partition=1):
    """Let the next poll say so. What the broker holds before `GONE` stands for what it held no more."""
    d1.log.silent.discard((1, Input.SUBMIT_DEFAULT))
    d1.log.lost_positions.append(PositionLost("submit.default", partition, wanted, low, low))


def told(world):
    return [each for each in world.lifecycle() if each.event == "records_lost"]


def position(world, d1):
    """Return where the input stands, and where the changelog says it does."""
    return d1.engine.seats[1].positions[Input.SUBMIT_DEFAULT], world.meta(1).positions["submit.default"]


def test_it_goes_on_behind_what_is_gone_and_says_once_how_much_that_is(world, d1):
    lose(d1)
    world.turn(3)
    assert position(world, d1) == (GONE, GONE)
    assert world.dead_letters() == []
    assert d1.signals.counts["lost_records", "submit.default"] == GONE
    assert [(each.reason, each.source, each.shard) for each in told(world)] == [
        ("7 offsets are gone", "submit.default/1@0", 1)
    ]
    assert d1.signals.failures["position_lost"] == 0
    job_id = next(job_id for job_id in map(str, range(99)) if world.home(job_id) == 1)
    world.submit(job_id)
    world.turn(3)
    assert world.state(job_id).phase == "ready"
    assert position(world, d1) == (GONE + 1, GONE + 1)
    assert len(told(world)) == 1


def test_a_turn_that_is_dropped_tells_it_again_and_only_the_committed_one_counts(world, d1):
    lose(d1)
    d1.log.fail("commit", abort)
    world.turn(8)
    world.until(d1.is_active)
    assert position(world, d1) == (GONE, GONE)
    assert d1.signals.counts["lost_records", "submit.default"] == GONE
    assert len(told(world)) == 1


@pytest.mark.parametrize(
    ("wanted", "low", "partition"),
    [
        (0, GONE + 1, 1),  # more is gone than was accepted
        (0, GONE - 1, 1),  # less is
        (GONE + 2, GONE, 1),  # the log lost its end: nothing says what is missing
        (0, GONE, 2),  # another input
    ],
)
def test_any_other_loss_is_held(world, d1, wanted, low, partition, caplog):
    before = position(world, d1)
    d1.log.lost_positions.append(PositionLost("submit.default", partition, wanted, low, low))
    world.turn(3)
    assert d1.signals.failures["position_lost"] == 1
    assert told(world) == []
    assert position(world, d1) == before == (0, 0)
    advice = f"--accept-loss submit.default/{partition}@{low}"
    assert (advice in caplog.text) == (wanted < low)


CUT = 2


def cut(d1, wanted, to=CUT):
    """Let the next poll say that the log lost its end. What the broker holds there stands for what it holds now."""
    lost = PositionLost("submit.default", 1, wanted, 0, wanted, cut=to)
    d1.log.lost_positions.append(lost)


@pytest.fixture
def read():
    """A world whose shard 1 has read and committed seven jobs; that the log was cut at `CUT` is accepted."""
    world = World(accepted_losses={PLACE: CUT})
    d1 = world.start()
    for job_id in [str(n) for n in range(99) if world.home(str(n)) == 1][:GONE]:
        world.submit(job_id)
    world.turn(3)
    assert position(world, d1) == (GONE, GONE)
    return world


def test_a_log_that_was_cut_is_read_again_from_there_if_accepted(read):
    d1 = read.dispatchers["d1"]
    taken = []
    d1.log.follow = lambda shard, offsets, epochs=None: (
        taken.append((shard, dict(offsets), epochs)),
        type(d1.log).follow(d1.log, shard, offsets, epochs),
    )
    seat = d1.engine.seats[1]
    seat.deletable = dict(seat.committed)  # as an hour later
    cut(d1, GONE)
    d1.engine.turn()
    assert taken == [(1, {Input.SUBMIT_DEFAULT: CUT}, None)]
    assert {seat.positions[Input.SUBMIT_DEFAULT], seat.deletable[Input.SUBMIT_DEFAULT]} == {CUT}
    d1.log.fail("commit", abort)
    read.turn(8)
    read.until(d1.is_active)
    assert position(read, d1) == (GONE, GONE)
    assert [(each.reason, each.source) for each in told(read)] == [
        ("5 offsets are gone", "submit.default/1@2")
    ]
    assert d1.signals.counts["lost_records", "submit.default"] == GONE - CUT
    assert d1.signals.failures["position_lost"] == 0


@pytest.mark.parametrize(("wanted", "to"), [(GONE, CUT + 1), (GONE + 1, CUT)])
def test_a_cut_elsewhere_or_with_records_in_hand_is_held(read, wanted, to, caplog):
    d1 = read.dispatchers["d1"]
    cut(d1, wanted, to)
    read.turn(3)
    assert d1.signals.failures["position_lost"] == 1
    assert told(read) == []
    assert f"--accept-loss submit.default/1@{to} gives up" in caplog.text


def test_what_was_read_before_is_acted_upon_first():
    world = World()
    shard = world.home("a")
    world = World(accepted_losses={("retry.5s", shard): 9})
    d1, worker = world.start(), world.worker()
    lease = grant(world, worker, "a")
    worker.release(lease, ReleaseReason.SNOOZED, delay_ms=5_000)
    world.turn(2)  # its retry record waits in its room: offset 0, and the marker is 1
    for _ in range(7):
        world.broker.append("retry.5s", shard, None, b"never read", at_ms=world.time.ms)
    d1.log.lost_positions.append(PositionLost("retry.5s", shard, 2, 9, 9))
    world.turn(3)
    assert told(world) == []
    assert d1.engine.seats[shard].positions[Input.RETRY_5S] == 0
    world.wait(6_000)
    assert world.state("a").phase == "ready"
    assert [each.reason for each in told(world)] == ["7 offsets are gone"]
    assert world.meta(shard).positions["retry.5s"] == 9
    world.finish()
