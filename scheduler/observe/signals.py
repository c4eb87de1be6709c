"""The dispatcher's counts as Prometheus metrics. Labels are bounded: the queue is not among them yet."""

from collections import Counter as Counts

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class PrometheusSignals:
    """Implements `dispatcher.signals.Signals`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics in `registry`."""
        self._submitted = Counter("jobs_submitted", "Jobs admitted.", ["band"], registry=registry)
        self._refused = Counter("jobs_refused", "Records quarantined.", ["reason"], registry=registry)
        self._forwarded = Counter("jobs_forwarded", "Jobs that landed on a foreign shard.", registry=registry)
        self._finished = Counter("jobs_finished", "Jobs that ended.", ["band", "outcome"], registry=registry)
        self._attempts = Counter("jobs_attempts", "Leases that ended.", ["result"], registry=registry)
        self._stale = Counter(
            "jobs_stale_reports", "Reports that name no live lease.", ["reason"], registry=registry
        )
        self._dead = Counter("jobs_dead_lettered", "Jobs dead-lettered.", ["reason"], registry=registry)
        self._lost_records = Counter(
            "jobs_lost_records",
            "Offsets of inputs that were deleted unread and given up by an operator.",
            ["topic"],
            registry=registry,
        )
        self._events = Counter("jobs_events", "Things worth counting.", ["event"], registry=registry)
        self._records = Counter("jobs_records_read", "Input records acted upon.", registry=registry)
        self._transactions = Counter("jobs_transactions", "Transactions.", ["result"], registry=registry)
        self._commit = Histogram(
            "jobs_commit_seconds", "From begin to stored.", registry=registry, buckets=_BUCKETS
        )
        self._clock = Gauge(
            "jobs_clock_difference_seconds",
            "How far this machine's clock is ahead of the brokers'.",
            registry=registry,
        )
        self._late = Gauge(
            "jobs_timers_late_seconds",
            "For how long the first scheduled job of the shards held here has been due.",
            registry=registry,
        )
        self._changed = Gauge(
            "jobs_topics_changed",
            "Topics whose partition count has changed since the start.",
            registry=registry,
        )
        self._rebalances = Counter("jobs_rebalances", "Changes of the shards held here.", registry=registry)
        self._standbys = Gauge(
            "jobs_standby_lag_records",
            "How far the copy of a shard that is kept warm here is behind its changelog.",
            ["shard"],
            registry=registry,
        )
        self._shards = Gauge("jobs_shards_owned", "Shards held here.", registry=registry)
        self._leasing = Gauge(
            "jobs_shards_leasing",
            "Those of them that lease; the others are being taken over, or adopt their leases again.",
            registry=registry,
        )

    def counted(self, counts: Counts[tuple[str, ...]]) -> None:
        """Take the core's counts of one committed turn and shard."""
        for key, count in counts.items():
            self._count(key, count)

    def _count(self, key: tuple[str, ...], count: int) -> None:
        match key:
            case ("submitted", band):
                self._submitted.labels(band).inc(count)
            case ("finished", band, _, outcome):
                self._finished.labels(band, str(outcome)).inc(count)
            case ("attempts", _, result):
                self._attempts.labels(result).inc(count)
            case ("refused", reason):
                self._refused.labels(reason).inc(count)
            case ("stale_reports", reason):
                self._stale.labels(reason).inc(count)
            case ("dead_lettered", reason):
                self._dead.labels(str(reason)).inc(count)
            case ("lost_records", topic):
                self._lost_records.labels(topic).inc(count)
            case ("forwarded",):
                self._forwarded.inc(count)
            case _:
                self._events.labels(key[0]).inc(count)

    def committed(self, records: int, commit_ms: int) -> None:
        """Take a committed turn."""
        self._records.inc(records)
        self._transactions.labels("commit").inc()
        self._commit.observe(commit_ms / 1000)

    def failed(self, how: str) -> None:
        """Take a failed turn."""
        self._transactions.labels(how).inc()

    def clock_differs(self, ms: int) -> None:
        """Take how far this machine's clock is ahead of the brokers', in milliseconds."""
        self._clock.set(ms / 1000)

    def timers_late(self, ms: int) -> None:
        """Take for how long the first timer of the shards held here has been due, in milliseconds."""
        self._late.set(ms / 1000)

    def topics_changed(self, topics: int) -> None:
        """Take how many of our topics have another partition count than at start."""
        self._changed.set(topics)

    def rebalanced(self, shards: list[int]) -> None:
        """Take the shards now held."""
        self._rebalances.inc()
        self._shards.set(len(shards))

    def leasing(self, shards: int) -> None:
        """Take how many of the shards held are taken over, and lease."""
        self._leasing.set(shards)

    def standby_lags(self, records: dict[int, int]) -> None:
        """Take how far each standby is behind; those that are gone show no more."""
        self._standbys.clear()
        for shard, lag in records.items():
            self._standbys.labels(shard).set(lag)


def unscraped() -> PrometheusSignals:
    """Return signals in a registry of their own, which nobody reads: what counting costs, without a server."""
    return PrometheusSignals(CollectorRegistry())
