"""Estimates of busy time: the time-out at first, then an upper-biased mean; bounded."""

import pytest

from scheduler.core.estimates import TYPES_MAX, Estimates


@pytest.mark.parametrize(("timeout_ms", "first"), [(100, 100), (60_000, 60_000), (86_400_000, 60_000)])
def test_the_first_estimate_is_the_timeout_capped_at_a_minute(timeout_ms, first):
    assert Estimates().get("t", "x", timeout_ms) == first


def test_it_is_by_tenant_and_type():
    estimates = Estimates()
    estimates.learn("t", "x", 5.0)
    assert estimates.get("t", "x", 300_000) == 5.0
    assert estimates.get("u", "x", 300_000) == 60_000
    assert estimates.get("t", "y", 300_000) == 60_000


def test_it_rises_faster_than_it_falls():
    up, down = Estimates(), Estimates()
    for estimates, first, then in ((up, 100.0, 200.0), (down, 200.0, 100.0)):
        estimates.learn("t", "x", first)
        estimates.learn("t", "x", then)
    assert up.get("t", "x", 0) == 150.0
    assert down.get("t", "x", 0) == 190.0


def test_what_is_remembered_is_bounded():
    estimates = Estimates()
    for number in range(TYPES_MAX + 100):
        estimates.learn("t", f"x{number}", 1.0)
    assert len(estimates._means) == TYPES_MAX
    assert estimates.get("t", f"x{TYPES_MAX + 99}", 500) == 1.0
    assert estimates.get("t", "x0", 500) == 500
