"""Who does not get on is found, with where it stands; who does is not."""

import threading
import time

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


def test_one_that_gets_on_or_is_done_is_not():
    found = []
    pulse = Pulse(stuck_ticks=200)
    pulse.watch(found.append, TICK_S / 10)
    watchman = next(thread for thread in threading.enumerate() if thread.name == "jobs-pulse")
    for _ in range(300):
        pulse.beat()
        time.sleep(TICK_S / 10)
    pulse.end()
    watchman.join(30)
    assert not watchman.is_alive()
    assert found == []
