"""The schedule is a function of the seed."""

from tests.chaos.catalogue import ANYWHERE, SEVERAL_BROKERS, SMALL_DISK
from tests.chaos.schedule import plan

FAULTS = (*ANYWHERE, *SEVERAL_BROKERS, *SMALL_DISK)


def test_one_seed_one_schedule():
    assert plan(1, 600, FAULTS) == plan(1, 600, FAULTS)
    assert plan(1, 600, FAULTS) != plan(2, 600, FAULTS)


def test_it_holds_every_kind_of_fault_and_lies_within_the_run():
    planned = plan(3, 120, FAULTS)
    assert {each.fault for each in planned} == set(FAULTS)
    assert [each.at_s for each in planned] == sorted(each.at_s for each in planned)
    assert 0 <= planned[0].at_s <= planned[-1].at_s <= 120


def test_ten_minutes_hold_more_than_two_hundred_kills_and_stops():
    sudden = ("kill_", "stop_", "freeze_")
    for seed in range(20):
        assert sum(each.fault.name.startswith(sudden) for each in plan(seed, 600, FAULTS)) > 220


def test_a_short_run_takes_some_of_the_kinds():
    assert len({each.fault for each in plan(3, 19, FAULTS)}) == 10
