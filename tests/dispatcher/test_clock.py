"""The dispatcher's wall time: never far ahead of the broker's once that is known."""

import pytest

from scheduler.core.job import Phase
from scheduler.core.reports import ReleaseReason
from scheduler.dispatcher.engine_clock import AHEAD_MAX_MS, ECHO_EVERY_MS, EngineClock
from tests.dispatcher.lives import grant
from tests.dispatcher.world import World

WALL = 1_764_450_000_000
HOUR_MS = 3_600_000


class Hands:
    """Clocks that a test turns."""

    def __init__(self) -> None:
        self.wall = WALL
        self.mono = 5_000

    def wall_ms(self) -> int:
        return self.wall

    def mono_ms(self) -> int:
        return self.mono


@pytest.fixture
def hands():
    return Hands()


@pytest.fixture
def clock(hands):
    return EngineClock(hands)


def test_before_the_first_own_echo_only_the_wall_counts(clock):
    assert not clock.known
    assert clock.now_ms(5_000) == WALL
    assert clock.difference_ms() == 0


def test_then_broker_time_bounds_it(hands, clock):
    hands.wall = WALL + 60_000
    clock.echoed(WALL, 4_990, 5_000)
    assert clock.known
    assert clock.now_ms(5_000) == WALL + AHEAD_MAX_MS
    assert clock.now_ms(9_000) == WALL + 4_000 + AHEAD_MAX_MS
    assert clock.difference_ms() == 60_000


def test_a_wall_clock_behind_is_taken_as_it_is(clock):
    clock.echoed(WALL + 60_000, 4_990, 5_000)
    assert clock.now_ms(5_000) == WALL


def test_an_echo_that_is_read_late_does_not_move_it_back(hands, clock):
    clock.echoed(WALL, 4_990, 5_000)
    hands.wall = WALL + 100_000
    clock.echoed(WALL + 10_000, 15_000, 65_000)  # it lay there for 50 s
    assert clock.now_ms(65_000) == WALL + 60_000 + AHEAD_MAX_MS


def test_an_echo_that_is_read_sooner_moves_it_on(hands, clock):
    clock.echoed(WALL, 4_000, 5_000)
    hands.wall = WALL + 100_000
    clock.echoed(WALL + 10_000, 14_100, 14_200)
    assert clock.now_ms(14_200) == WALL + 10_000 + AHEAD_MAX_MS


def test_a_broker_whose_clock_was_ahead_is_believed_no_longer_than_that(hands, clock):
    clock.echoed(WALL + HOUR_MS, 4_990, 5_000)
    hands.wall = WALL + HOUR_MS
    assert clock.now_ms(5_000) == WALL + HOUR_MS
    clock.echoed(WALL + 1_000, 5_990, 6_000)
    assert clock.now_ms(6_000) == WALL + 1_000 + AHEAD_MAX_MS


def test_a_turn_that_reads_an_echo_goes_by_the_earlier_of_both_times(hands, clock):
    hands.wall = WALL + HOUR_MS
    assert clock.settled_ms(WALL + HOUR_MS, 5_000) == WALL + HOUR_MS
    clock.echoed(WALL, 4_990, 5_000)
    before = clock.now_ms(5_000)
    assert clock.settled_ms(WALL + HOUR_MS, 5_000) == before == WALL + AHEAD_MAX_MS
    clock.echoed(WALL + 10_000, 14_100, 14_200)  # broker time is later than it was held for
    assert clock.settled_ms(before, 5_000) == before < clock.now_ms(5_000)
    clock.echoed(WALL + 10_100, 15_100, 15_200)  # and earlier
    assert clock.settled_ms(before + 20_000, 15_200) == clock.now_ms(15_200) < before + 20_000


def test_an_owner_that_was_suspended_before_its_echo_left_proves_nothing(hands, clock):
    clock.echoed(WALL, 4_990, 5_000)
    hands.wall = WALL + HOUR_MS
    clock.echoed(WALL + 60_000, 5_000, 65_010)
    assert clock.now_ms(65_010) == WALL + 60_010 + AHEAD_MAX_MS


def test_an_echo_a_minute_is_wanted(clock):
    assert not clock.wants_echo(10**9)
    clock.echoed(WALL, 4_990, 5_000)
    assert not clock.wants_echo(5_000 + ECHO_EVERY_MS - 1)
    assert clock.wants_echo(5_000 + ECHO_EVERY_MS)


def test_a_quiet_dispatcher_asks_a_broker_for_its_time_once_a_minute():
    world = World()
    world.start()
    world.outlive()
    before = [len(world.broker.log("reports", shard)) for shard in range(world.shards)]
    world.wait(20 * ECHO_EVERY_MS, every_ms=500)
    asked = [len(world.broker.log("reports", shard)) - before[shard] for shard in range(world.shards)]
    assert 18 <= sum(asked) <= 20
    assert min(asked) > 0, "no broker alone says what time it is"
    world.finish()


def test_nothing_starts_early_after_a_broker_that_was_ahead_has_been_put_right():
    world = World()
    world.time.broker_ahead_ms = HOUR_MS
    d1 = world.join("d1")
    d1.clock.ahead_ms = HOUR_MS
    world.until(d1.is_active)
    world.time.broker_ahead_ms = 0
    world.wait(ECHO_EVERY_MS + 2_000, every_ms=500)
    due_ms = world.time.ms + 10_000
    world.submit("a", run_at_ms=due_ms)
    world.turn(2)
    world.until(lambda: world.state("a").phase == "ready", every_ms=100)
    assert world.time.ms >= due_ms - AHEAD_MAX_MS
    world.finish()


def test_a_new_owner_whose_clock_is_ahead_wakes_no_retry_before_it_knows_the_brokers_time(world, worker):
    worker.release(grant(world, worker), ReleaseReason.SNOOZED, delay_ms=40_000)
    world.turn(2)
    world.kill("d1")
    d2 = world.join("d2")
    d2.clock.ahead_ms = HOUR_MS
    world.until(d2.is_active)
    world.wait(30_000)
    assert world.state().phase is Phase.RETRYING
    world.wait(10_000)
    assert world.state().phase is Phase.READY
