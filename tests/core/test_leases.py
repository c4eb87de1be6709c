"""The renewal table by itself: periods, echoes, due times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.leases import Leases, Renewal
from scheduler.core.timing import Timing

TIMING = Timing()
F, L = TIMING.first_ms, 20_000


def entry(job_id: str = "a", epoch: int = 1, at_ms: int = 0, period_ms: int = F) -> Renewal:
    return Renewal(job_id, epoch, L, 300_000, granted_at_ms=at_ms, read_at_ms=at_ms, period_ms=period_ms)


def expired(leases: Leases, produced_at_ms: int) -> list[str]:
    return [each.job_id for each in leases.expired(produced_at_ms)]


def test_the_first_period_counts_from_the_grant_and_then_the_whole_from_each_renewal():
    leases = Leases(TIMING)
    one = entry()
    leases.granted(one)
    assert expired(leases, F - 1) == []
    assert expired(leases, F) == ["a"]
    leases.renewed(one, F - 1)
    assert expired(leases, F - 1 + L - 1) == []
    assert expired(leases, F - 1 + L) == ["a"]


def test_a_grant_overwrites_what_an_earlier_epoch_left():
    leases = Leases(TIMING)
    leases.granted(entry(epoch=1))
    leases.granted(entry(epoch=2, at_ms=5_000))
    assert leases.get("a", 1) is None
    assert len(leases) == 1
    assert expired(leases, F) == []


def test_adopting_gives_a_period_only_where_there_is_no_entry():
    leases = Leases(TIMING)
    leases.granted(entry())
    leases.adopted(entry(at_ms=9_000, period_ms=L))
    leases.adopted(entry("b", at_ms=9_000, period_ms=L))
    assert expired(leases, F) == ["a"]
    assert expired(leases, 9_000 + L) == ["a", "b"]


def test_adopting_replaces_an_entry_of_another_epoch():
    leases = Leases(TIMING)
    leases.granted(entry(epoch=2))
    leases.adopted(entry(epoch=1, at_ms=9_000, period_ms=L))
    assert leases.get("a", 2) is None
    assert expired(leases, F) == []


def test_only_live_entries_are_kept():
    leases = Leases(TIMING)
    leases.granted(entry("a", 1))
    leases.granted(entry("b", 2))
    leases.keep_only({("a", 1), ("b", 1)})
    assert [each.job_id for each in leases] == ["a"]


def test_an_echo_is_worth_sending_once_something_looks_due():
    leases = Leases(TIMING)
    one = entry()
    leases.granted(one)
    assert not leases.looks_due(F - 1)
    assert leases.looks_due(F)
    assert leases.looks_due(F)  # until it has expired or was renewed
    leases.renewed(one, F)
    assert not leases.looks_due(F + L - 1)
    assert leases.looks_due(F + L)
    leases.ended("a")
    assert not leases.looks_due(F + L)


def test_echoes_are_a_second_apart_unless_hurried():
    leases = Leases(TIMING)
    assert leases.next_echo(0) == 1
    assert leases.next_echo(999) is None
    assert leases.next_echo(1_000) == 2
    leases.hurry_echo()
    assert leases.next_echo(1_001) == 3


def test_an_echo_read_back_tells_when_it_was_produced_and_ends_older_ones():
    leases = Leases(TIMING)
    for at_ms in (0, 1_000, 2_000):
        leases.next_echo(at_ms)
    assert leases.echo_read(2) == 1_000
    assert leases.echo_read(2) is None
    assert leases.echo_read(1) is None
    assert leases.echo_read(3) == 2_000
    assert leases.echo_read(99) is None


def test_losing_the_shard_clears_entries_and_echoes_but_no_number_comes_twice():
    leases = Leases(TIMING)
    leases.granted(entry())
    assert leases.next_echo(0) == 1
    leases.clear()
    assert len(leases) == 0
    assert leases.echo_read(1) is None
    assert not leases.looks_due(1 << 40)
    assert leases.next_echo(0) == 2
    assert Leases(TIMING, leases.last_echo).next_echo(0) == 3


def test_a_timeout_comes_after_the_workers():
    leases = Leases(TIMING)
    leases.granted(entry(at_ms=100))
    assert leases.timeouts(100 + 300_000 + TIMING.timeout_grace_ms - 1) == []
    assert [each.job_id for each in leases.timeouts(100 + 300_000 + TIMING.timeout_grace_ms)] == ["a"]


@pytest.mark.parametrize(
    ("lease_ms", "margin_ms"), [(10_000, 1_000), (20_000, 2_000), (60_000, 6_000), (100, 1_000)]
)
def test_the_margin_is_a_tenth_but_a_second_at_least(lease_ms, margin_ms):
    assert TIMING.margin_ms(lease_ms) == margin_ms


@given(
    st.lists(
        st.tuples(st.sampled_from(["grant", "renew", "echo", "wait"]), st.integers(0, 9_000)), max_size=60
    )
)
def test_what_looks_due_is_what_an_echo_sent_now_would_end(events):
    leases = Leases(TIMING)
    now_ms, epoch = 0, 0
    for event, number in events:
        if event == "grant":
            epoch += 1
            leases.granted(entry(f"j{number % 5}", epoch, now_ms))
        elif event == "renew":
            for each in leases:
                if each.job_id == f"j{number % 5}":
                    leases.renewed(each, now_ms)
        elif event == "echo":
            for each in leases.expired(now_ms):
                leases.ended(each.job_id)
        else:
            now_ms += number
        assert leases.looks_due(now_ms) == bool(leases.expired(now_ms))
