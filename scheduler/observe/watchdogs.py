"""What the watchdogs found, as Prometheus metrics."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge


class WatchdogMetrics:
    """Implements `kafka.watchdog.Told`; told of the last exit besides."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics in `registry`."""
        self._taken_up = Counter(
            "jobs_inputs_taken_up",
            "Inputs that had unread records and brought none, and were taken up anew.",
            ["topic"],
            registry=registry,
        )
        self._hidden = Gauge(
            "jobs_hidden_records",
            "Records behind a transaction that somebody left open.",
            ["topic"],
            registry=registry,
        )
        self._last_exit = Gauge(
            "jobs_last_exit_info", "How the last process with this state ended.", ["how"], registry=registry
        )

    def taken_up(self, topic: str) -> None:
        """Count an input that was taken up anew."""
        self._taken_up.labels(topic).inc()

    def hidden(self, records: Mapping[str, int]) -> None:
        """Take how many records of each topic lie behind transactions that were left open."""
        self._hidden.clear()
        for topic, count in records.items():
            self._hidden.labels(topic).set(count)

    def last_exit(self, how: str) -> None:
        """Take how the last process here ended."""
        self._last_exit.labels(how).set(1)
