"""Outcomes are values that can be raised."""

import copy
import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from scheduler import Cancel, Fail, Outcome, Retry, Snooze
from scheduler.core import bounds


def test_they_compare_by_content():
    assert Retry("60s") == Retry(timedelta(minutes=1))
    assert Retry("60s") != Retry("61s")
    assert Retry("60s") != Snooze("60s")
    assert Fail("x") != Cancel("x")
    assert len({Fail("x"), Fail("x"), Fail("y")}) == 2


@pytest.mark.parametrize("outcome", [Retry("60s", "busy"), Retry(), Snooze("10m"), Fail("no"), Cancel("off")])
def test_they_can_be_raised_copied_and_pickled(outcome):
    with pytest.raises(Outcome) as caught:
        raise outcome
    assert caught.value is outcome
    assert copy.copy(outcome) == outcome
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@pytest.mark.parametrize(
    ("after", "ms"),
    [(None, -1), ("90s", 90_000), ("1h30m", 5_400_000), (timedelta(seconds=1), 1_000), ("0s", 0)],
)
def test_retry_after_a_duration(after, ms):
    assert Retry(after).after_ms == ms


def test_retry_after_as_http_sends_it():
    assert Retry(after="30").after_ms == 30_000
    assert Retry(after=" 0 ").after_ms == 0
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    for header in (
        format_datetime(in_an_hour, usegmt=True),
        in_an_hour.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
    ):
        assert Retry(after=header).after_ms == pytest.approx(3_600_000, abs=5_000)


def test_a_date_that_has_passed_is_now():
    assert Retry(after="Sun, 06 Nov 1994 08:49:37 GMT").after_ms == 0
    assert Retry(after="Sun Nov  6 08:49:37 1994").after_ms == 0


def test_a_server_may_exaggerate_but_an_author_may_not():
    assert Retry(after="999999999999").after_ms == bounds.DELAY_MAX_MS
    assert Retry(after="Fri, 31 Dec 9999 23:59:59 GMT").after_ms == bounds.DELAY_MAX_MS
    for ask in (Retry, Snooze):
        with pytest.raises(ValueError, match="is above the longest delay"):
            ask("400d")


@pytest.mark.parametrize("wrong", [30, 30.0, True, "soon", "Mon, 99 Foo 2026 00:00:00 GMT", "-5", "5 s"])
def test_what_is_no_delay(wrong):
    with pytest.raises(ValueError, match=r"duration|unit"):
        Retry(after=wrong)


@pytest.mark.parametrize("wrong", [600, 0.5, "600"])
def test_a_snooze_needs_a_unit(wrong):
    with pytest.raises(ValueError, match=r"has no unit: write '.*s', or give a timedelta"):
        Snooze(wrong)


def test_what_a_log_line_shows():
    shown = [
        str(o) for o in (Retry("5s"), Retry("5s", "busy"), Retry(), Snooze("1m"), Fail("bad"), Cancel("off"))
    ]
    assert shown == [
        "retry after 5000 ms",
        "busy (retry after 5000 ms)",
        "retry",
        "snooze for 60000 ms",
        "bad",
        "off",
    ]
