"""Durations have units, times have offsets, whatever the machine's own zone is (AV-01)."""

import os
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler.client.durations import duration_ms, moment_ms

NAIVE = datetime(2027, 1, 1, tzinfo=UTC).replace(tzinfo=None)
ZONES = ("UTC", "Asia/Tokyo", "America/St_Johns")


@pytest.fixture(params=ZONES)
def zone(request):
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("250ms", 250),
        ("1.5s", 1_500),
        ("0s", 0),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("0.0001s", 1),  # rounded up: never early
    ],
)
def test_durations(text, ms):
    assert duration_ms(text) == ms


def test_timedelta():
    assert duration_ms(timedelta(minutes=1, microseconds=1)) == 60_001


@pytest.mark.parametrize("wrong", [5, 5.0, "5", "1.5"])
def test_bare_numbers_are_refused_and_told_what_to_write(wrong):
    with pytest.raises(ValueError, match=r"has no unit: write '.*s', or give a timedelta"):
        duration_ms(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "s",
        "-5s",
        "5 s",
        "5S",
        "five s",
        "5s ",
        "1e3s",
        "٣s",
        "5s" * 40,
        "9" * 16 + "s",
        True,
        None,
        b"5s",
    ],
)
def test_what_is_no_duration(wrong):
    with pytest.raises(ValueError, match=r"duration|unit"):
        duration_ms(wrong)


@pytest.mark.parametrize("wrong", [timedelta(seconds=-1), timedelta.max, "999999999d"])
def test_out_of_range(wrong):
    with pytest.raises(ValueError, match="is not a duration between 0 and"):
        duration_ms(wrong)


def test_aware_times_mean_the_same_in_every_zone(zone):
    expected = 1_798_761_600_000
    assert moment_ms(datetime(2027, 1, 1, tzinfo=UTC)) == expected
    assert moment_ms(datetime(2027, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))) == expected
    assert moment_ms("2027-01-01T00:00:00Z") == expected
    assert moment_ms("2027-01-01t09:00:00+09:00") == expected
    assert moment_ms("2027-01-01T00:00:00.0005Z") == expected + 1


@pytest.mark.parametrize("naive", [NAIVE, "2027-01-01T00:00:00", "2027-01-01 00:00:00"])
def test_naive_times_are_refused(zone, naive):
    with pytest.raises(ValueError, match=r"has no time zone|has no offset"):
        moment_ms(naive)


@pytest.mark.parametrize("number", [1_798_761_600.5, 1_798_761_600, 1_798_761_600_000_000, True])
def test_numbers_are_no_times(zone, number):
    with pytest.raises(ValueError, match="is not a time"):
        moment_ms(number)


@pytest.mark.parametrize(
    "wrong",
    [
        "2027-13-01T00:00:00Z",
        "2027-01-01",
        "tomorrow",
        "2027-01-01T00:00:00+25:00",
        "2027-W01-1T00:00:00Z",
        "x" * 999,
    ],
)
def test_text_that_is_no_time(wrong):
    with pytest.raises(ValueError, match="is not a time"):
        moment_ms(wrong)


@pytest.mark.parametrize("wrong", ["1969-12-31T23:59:59Z", datetime.min.replace(tzinfo=UTC)])
def test_times_out_of_range(wrong):
    with pytest.raises(ValueError, match="is not between 1970 and 9999"):
        moment_ms(wrong)


def test_the_last_time():
    assert moment_ms("9999-12-31T23:59:59.999Z") == 253_402_300_799_999
    with pytest.raises(ValueError, match="is not between"):
        moment_ms("9999-12-31T23:59:59.999-01:00")
