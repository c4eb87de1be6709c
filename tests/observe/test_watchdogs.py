"""What the watchdogs found, as metrics."""

from prometheus_client import CollectorRegistry

from scheduler.observe.watchdogs import WatchdogMetrics


def test_inputs_taken_up_are_counted_and_hidden_records_are_those_of_the_last_look():
    registry = CollectorRegistry()
    metrics = WatchdogMetrics(registry)
    for _ in range(2):
        metrics.taken_up("commands")
    metrics.hidden({"submit.bulk": 7, "commands": 1})
    metrics.hidden({"commands": 3})
    metrics.last_exit("stuck")
    assert registry.get_sample_value("jobs_inputs_taken_up_total", {"topic": "commands"}) == 2
    assert registry.get_sample_value("jobs_hidden_records", {"topic": "commands"}) == 3
    assert registry.get_sample_value("jobs_hidden_records", {"topic": "submit.bulk"}) is None
    assert registry.get_sample_value("jobs_last_exit_info", {"how": "stuck"}) == 1
