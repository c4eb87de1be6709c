"""How long leases stop when one of two dispatchers dies, or leaves: real processes, under load."""

import time
from collections.abc import Callable, Mapping

from scheduler.bench.figures import percentile
from scheduler.bench.load import Load
from scheduler.bench.site import Process, Site, site
from scheduler.bench.standin import StandIn
from scheduler.core.keys import shard_of
from scheduler.core.notices import Lease
from scheduler.kafka.admin import Admin

_RATE = 100  # jobs a second
_ASK_EVERY_S = 0.5
_SETTLED_S = 2.0
_GIVE_UP_S = 90.0


def failover(properties: Mapping[str, str], runs: int) -> dict[str, float]:
    """Kill one of two dispatchers `runs` times, then stop one as often; take the time until all shards lease again.

    The time is that from the signal to the first lease, on the shard that waits longest, of a job that was submitted
    after the signal. The loads of both halves are the same; a new dispatcher takes the place of the gone one.
    """
    with site(properties) as place:
        scene = _Scene(place)
        killed_s = [scene.run(Process.kill) for _ in range(runs)]
        stopped_s = [scene.run(Process.terminate) for _ in range(runs)]
        scene.close()
    return {
        "runs": runs,
        "kill_p50_s": round(percentile(killed_s, 0.50), 2),
        "kill_p99_s": round(percentile(killed_s, 0.99), 2),
        "stop_p50_s": round(percentile(stopped_s, 0.50), 2),
        "stop_p99_s": round(percentile(stopped_s, 0.99), 2),
    }


class _Scene:
    """Two dispatchers that share the shards, a steady stream of jobs, and a stand-in worker."""

    def __init__(self, place: Site) -> None:
        self._place = place
        self._load = Load(place.properties, place.prefix, place.shards, linger_ms=0)
        self._worker = StandIn(place.properties, place.prefix, slots=256, shards=place.shards)
        self._admin = Admin(place.properties)
        self._ask_s = self._shared_since_s = time.monotonic()
        self._started = 0
        self._pair = [self._start(), self._start()]

    def run(self, end: Callable[[Process], None]) -> float:
        """End one dispatcher in this way once both share the load; return the seconds without leases somewhere."""
        self._stream(until=self._shared)
        gone = self._pair.pop(0)
        signal_s = time.monotonic()
        end(gone)
        leased_s = self._stream(until=self._all_leased)
        gone.stop()
        self._pair.append(self._start())
        self._shared_since_s = time.monotonic()
        return leased_s - signal_s

    def close(self) -> None:
        """Close the clients."""
        self._worker.close()
        self._load.close()

    def _start(self) -> Process:
        self._started += 1
        return self._place.dispatcher(f"dispatcher-{self._started}")

    def _all_leased(self, first: dict[int, float]) -> bool:
        return len(first) == self._place.shards

    def _shared(self, first: dict[int, float]) -> bool:
        """Say whether every shard leases, and both dispatchers hold some for a while."""
        now = time.monotonic()
        if now >= self._ask_s:
            self._ask_s = now + _ASK_EVERY_S
            shares = self._admin.shares(f"{self._place.prefix}dispatcher")
            if len(shares) != len(self._pair) or not all(shares):
                self._shared_since_s = now
        return self._all_leased(first) and now - self._shared_since_s >= _SETTLED_S

    def _stream(self, until: Callable[[dict[int, float]], bool]) -> float:
        """Submit and answer until `until(first lease by shard)`; return when the last shard had its first lease."""
        mine: set[str] = set()
        first: dict[int, float] = {}

        def leased(lease: Lease, _at_ms: int) -> None:
            if lease.job_id in mine:
                first.setdefault(shard_of(lease.job_id, self._place.shards), time.monotonic())

        began, submitted = time.monotonic(), 0
        while not until(first):
            now = time.monotonic()
            if now - began > _GIVE_UP_S:
                raise RuntimeError(
                    f"{self._place.shards - len(first)} shards did not lease within {_GIVE_UP_S} s"
                )
            while submitted < (now - began) * _RATE:
                mine.add(self._load.one())
                submitted += 1
            self._worker.step(0.005, leased)
        return max(first.values())
