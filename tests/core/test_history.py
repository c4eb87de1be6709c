"""What a state remembers of runs is bounded."""

from scheduler.core import bounds
from scheduler.core.history import error_of, with_attempt, with_event
from scheduler.core.job import NO_HISTORY, Attempt, ErrorInfo, Event


def attempt(number: int, error: ErrorInfo | None = None) -> Attempt:
    return Attempt(number, number, number, "failed", "w", error=error)


def test_the_last_five_attempts_stay():
    history = NO_HISTORY
    for number in range(12):
        history = with_attempt(history, attempt(number))
    assert [each.epoch for each in history.attempts] == [7, 8, 9, 10, 11]


def test_the_first_three_events_and_the_last_twenty_stay():
    history = NO_HISTORY
    for number in range(100):
        history = with_event(history, Event(number, "e"))
    assert [each.at_ms for each in history.timeline] == [0, 1, 2, *range(80, 100)]
    assert history.timeline_dropped == 100 - bounds.TIMELINE_FIRST - bounds.TIMELINE_LAST


def test_the_latest_error_is_that_of_the_last_run_that_left_one():
    history = with_attempt(NO_HISTORY, attempt(1, ErrorInfo("First")))
    history = with_attempt(history, attempt(2, ErrorInfo("Second")))
    history = with_attempt(history, attempt(3))
    assert error_of(history) == ErrorInfo("Second")
    assert error_of(NO_HISTORY) is None
