"""How many slots a worker keeps for interactive jobs."""

import pytest

from scheduler.worker.reserve import reserved_slots

WORKERS = [number.to_bytes(16, "big") for number in range(2_000)]


def test_a_number_is_that_many_slots():
    assert [reserved_slots(f"interactive={n}", 8, WORKERS[0]) for n in (0, 1, 8)] == [0, 1, 8]


def test_a_share_of_one_slot_workers_is_reserved_as_a_whole():
    reserved = [reserved_slots("interactive=25%", 1, boot_id) for boot_id in WORKERS]
    assert set(reserved) == {0, 1}
    assert 0.2 < sum(reserved) / len(reserved) < 0.3


def test_what_a_share_leaves_over_is_one_slot_in_that_part_of_all_workers():
    reserved = [reserved_slots("interactive=30%", 8, boot_id) for boot_id in WORKERS]
    assert set(reserved) == {2, 3}
    assert 2.35 < sum(reserved) / len(reserved) < 2.45


def test_shares_of_nothing_and_of_everything_are_the_same_for_all():
    assert {reserved_slots("interactive=0%", 1, boot_id) for boot_id in WORKERS} == {0}
    assert {reserved_slots("interactive=100%", 3, boot_id) for boot_id in WORKERS} == {3}


@pytest.mark.parametrize(
    "asked", ["bulk=1", "interactive=5", "interactive=101%", "interactive=-1", "1", "", "interactive=\u0661"]
)
def test_anything_else_is_refused_with_its_limits(asked):
    with pytest.raises(
        ValueError, match=r"is not interactive=N with N up to 4, nor interactive=N% up to 100%"
    ):
        reserved_slots(asked, 4, WORKERS[0])
