"""The dispatcher's wall time: never far ahead of the broker's once that is known."""

from scheduler.dispatcher.engine_clock import AHEAD_MAX_MS, EngineClock

WALL = 1_764_450_000_000


class Hands:
    """Clocks that a test turns."""

    def __init__(self) -> None:
        self.wall = WALL
        self.mono = 5_000

    def wall_ms(self) -> int:
        return self.wall

    def mono_ms(self) -> int:
        return self.mono


def test_before_the_first_own_echo_only_the_wall_counts():
    hands = Hands()
    clock = EngineClock(hands)
    clock.saw(WALL - 86_400_000, 5_000)  # a backlog of yesterday
    assert not clock.known
    assert clock.now_ms(5_000) == WALL


def test_then_the_newest_broker_time_bounds_it():
    hands = Hands()
    clock = EngineClock(hands)
    hands.wall = WALL + 60_000
    clock.saw(WALL, 5_000, own_echo=True)
    assert clock.known
    assert clock.now_ms(5_000) == WALL + AHEAD_MAX_MS
    assert clock.now_ms(9_000) == WALL + 4_000 + AHEAD_MAX_MS
    assert clock.difference_ms() == 60_000


def test_a_wall_clock_behind_is_taken_as_it_is():
    hands = Hands()
    clock = EngineClock(hands)
    clock.saw(WALL + 60_000, 5_000, own_echo=True)
    assert clock.now_ms(5_000) == WALL


def test_old_records_do_not_move_it_back():
    hands = Hands()
    clock = EngineClock(hands)
    clock.saw(WALL, 5_000, own_echo=True)
    clock.saw(WALL - 3_600_000, 6_000)
    hands.wall = WALL + 500
    assert clock.now_ms(6_000) == WALL + 500
