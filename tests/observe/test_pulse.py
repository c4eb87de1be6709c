"""Who does not get on is found, with where it stands; who does is not."""

import threading

import pytest

from scheduler.observe.pulse import Pulse

TICK_S = 0.01


def test_a_thread_that_stands_still_is_found_with_the_place_where_it_stands():
    found, told = [], threading.Event()
    pulse = Pulse(stuck_ticks=3)
    pulse.beat()
    pulse.watch(lambda where: (found.append(where), told.set()), TICK_S)

    def where_it_is_stuck():
        assert told.wait(30)

    where_it_is_stuck()
    assert len(found) == 1
    assert "in where_it_is_stuck" in found[0]


class Ticks:
    """Stands in for the watchman's sleep: at each tick the thread gets on, or does not; then it is done."""

    def __init__(self, pulse, gets_on):
        self._pulse, self._gets_on = pulse, iter(gets_on)

    def wait(self, _tick_s):
        step = next(self._gets_on, None)
        if step:
            self._pulse.beat()
        return step is None


@pytest.mark.parametrize(
    ("gets_on", "times"),
    [
        ([True] * 10, 0),
        ([False, False, True] * 5, 0),
        ([True, False, False], 0),  # done before the third
        ([True, False, False, False], 1),
        ([False] * 20, 1),
    ],
)
def test_so_many_ticks_in_a_row_are_stuck_and_fewer_are_not(gets_on, times):
    found = []
    pulse = Pulse(stuck_ticks=3)
    pulse._over = Ticks(pulse, gets_on)
    pulse._look_on(found.append, TICK_S)
    assert len(found) == times


def test_the_watchman_of_one_that_is_done_goes_home():
    pulse = Pulse()
    pulse.watch(pytest.fail, TICK_S)
    watchman = next(thread for thread in threading.enumerate() if thread.name == "jobs-pulse")
    pulse.end()
    watchman.join(30)
    assert not watchman.is_alive()
