"""Delays and tiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import bounds
from scheduler.core.retry import TIERS, backoff_ms, release_backoff_ms, tier_for
from scheduler.core.spec import Backoff


@pytest.mark.parametrize(
    ("delay_ms", "name"),
    [
        (0, None),
        (4_999, None),
        (5_000, "5s"),
        (29_999, "5s"),
        (30_000, "30s"),
        (119_999, "30s"),
        (120_000, "2m"),
        (600_000, "10m"),
        (1_799_999, "10m"),
        (1_800_000, "30m"),
        (366 * bounds.DAY_MS, "30m"),
    ],
)
def test_the_largest_tier_that_is_not_longer_than_the_delay(delay_ms, name):
    tier = tier_for(delay_ms)
    assert (None if tier is None else TIERS[tier].name) == name


backoffs = st.builds(
    Backoff,
    st.integers(bounds.BACKOFF_MIN_MS, bounds.BACKOFF_MAX_MS),
    st.floats(1.0, bounds.BACKOFF_FACTOR_MAX),
    st.integers(bounds.BACKOFF_MIN_MS, bounds.BACKOFF_MAX_MS),
)


@given(backoffs, st.integers(1, bounds.MAX_ATTEMPTS_MAX), st.floats(0, 1, exclude_max=True))
def test_a_backoff_stays_within_its_bounds_whatever_the_record_says(backoff, failures, chance):
    delay_ms = backoff_ms(backoff, failures, chance)
    assert isinstance(delay_ms, int)
    assert 0 <= delay_ms <= backoff.max_ms


def test_the_ceiling_doubles_up_to_the_most():
    backoff = Backoff(base_ms=1_000, factor=2.0, max_ms=10_000)
    almost = 1 - 2**-53
    assert [round(backoff_ms(backoff, n, almost), -2) for n in range(1, 7)] == [
        1_000,
        2_000,
        4_000,
        8_000,
        10_000,
        10_000,
    ]


def test_jitter_is_full_and_keeps_its_resolution():
    backoff = Backoff(base_ms=10_000, factor=1.0, max_ms=10_000)
    delays = [backoff_ms(backoff, 1, n / 1_000) for n in range(1_000)]
    assert all(abs(delay - 10 * n) <= 1 for n, delay in enumerate(delays))


def test_nobody_could_start_it_backs_off_from_1_s_to_60_s():
    assert [release_backoff_ms(n) for n in (1, 2, 3, 6, 7, 8, 1_000_000)] == [
        1_000,
        2_000,
        4_000,
        32_000,
        60_000,
        60_000,
        60_000,
    ]
