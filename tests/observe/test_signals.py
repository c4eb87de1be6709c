"""The dispatcher's counts as metrics."""

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry

from scheduler.core.job import Phase
from scheduler.core.outputs import DeathReason
from scheduler.observe.signals import PrometheusSignals


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.mark.parametrize(
    ("key", "name", "labels"),
    [
        (("submitted", "bulk"), "jobs_submitted_total", {"band": "bulk"}),
        (("finished", "default", "email", Phase.FAILED), "jobs_finished_total", {"band": "default", "outcome": "failed"}),
        (("attempts", "email", "lost"), "jobs_attempts_total", {"result": "lost"}),
        (("refused", "schema_unknown"), "jobs_refused_total", {"reason": "schema_unknown"}),
        (("stale_reports", "epoch"), "jobs_stale_reports_total", {"reason": "epoch"}),
        (("dead_lettered", DeathReason.LOST), "jobs_dead_lettered_total", {"reason": "lost"}),
        (("lost_records", "commands"), "jobs_lost_records_total", {"topic": "commands"}),
        (("forwarded",), "jobs_forwarded_total", {}),
        (("conflict",), "jobs_events_total", {"event": "conflict"}),
    ],
)  # fmt: skip
def test_each_count_of_the_core_has_its_metric(registry, key, name, labels):
    signals = PrometheusSignals(registry)
    signals.counted(Counter({key: 2}))
    signals.counted(Counter({key: 3}))
    assert registry.get_sample_value(name, labels) == 5


def test_turns_are_counted_by_how_they_ended(registry):
    signals = PrometheusSignals(registry)
    signals.committed(records=7, commit_ms=4)
    signals.failed("abort")
    assert registry.get_sample_value("jobs_transactions_total", {"result": "commit"}) == 1
    assert registry.get_sample_value("jobs_transactions_total", {"result": "abort"}) == 1
    assert registry.get_sample_value("jobs_records_read_total") == 7
    assert registry.get_sample_value("jobs_commit_seconds_sum") == 0.004


def test_the_shards_held_are_those_of_the_last_change(registry):
    signals = PrometheusSignals(registry)
    signals.rebalanced([1, 2, 3])
    signals.rebalanced([2])
    assert registry.get_sample_value("jobs_shards_owned") == 1
    assert registry.get_sample_value("jobs_rebalances_total") == 2


def test_shards_that_are_being_taken_over_are_those_that_do_not_lease(registry):
    signals = PrometheusSignals(registry)
    signals.rebalanced([1, 2, 3])
    assert registry.get_sample_value("jobs_shards_leasing") == 0
    signals.leasing(2)
    assert registry.get_sample_value("jobs_shards_leasing") == 2


def test_what_is_measured_shows_its_last_value(registry):
    signals = PrometheusSignals(registry)
    signals.clock_differs(90_000)
    signals.clock_differs(-2_500)
    signals.topics_changed(2)
    signals.timers_late(1_500)
    assert registry.get_sample_value("jobs_clock_difference_seconds") == -2.5
    assert registry.get_sample_value("jobs_topics_changed") == 2
    assert registry.get_sample_value("jobs_timers_late_seconds") == 1.5
