"""How long leases stop when one of two dispatchers dies, or leaves: real processes, under load."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from scheduler.bench.figures import percentile
from scheduler.bench.load import Load
from scheduler.bench.site import Process, Site, site
from scheduler.bench.standin import StandIn
from scheduler.core.keys import shard_of
from scheduler.core.notices import Lease
from scheduler.kafka.admin import Admin

_RATE = 100  # jobs a second
_ASK_EVERY_S = 0.5
_SETTLED_S = 5.0  # so that no owner counts as short-lived: see `dispatcher.care`
_GIVE_UP_S = 90.0


def failover(properties: Mapping[str, str], runs: int) -> dict[str, float]:
    """Kill one of two dispatchers `runs` times, then stop one as often; take the time until all shards lease again.

    The time is that from the signal to the first lease, on the shard that waits longest, of a job that was submitted
    after the signal. The loads of both halves are the same; a new dispatcher takes the place of the gone one.
    """
    with site(properties) as place:
        scene = _Scene(place)
        killed = [scene.run(Process.kill) for _ in range(runs)]
        stopped = [scene.run(Process.terminate) for _ in range(runs)]
        scene.close()
    return {"runs": runs, **_figures("kill", killed), **_figures("stop", stopped)}


class _Parts(NamedTuple):
    """One run: the seconds until the other dispatcher gets the shards, has restored them, and each has leased."""

    gained_s: float
    restored_s: float
    leased_s: float

    @property
    def whole_s(self) -> float:
        return sum(self)


def _figures(how: str, runs: Sequence[_Parts]) -> dict[str, float]:
    wholes = [run.whole_s for run in runs]
    figures = {
        f"{how}_p50_s": round(percentile(wholes, 0.50), 2),
        f"{how}_p99_s": round(percentile(wholes, 0.99), 2),
    }
    for part in _Parts._fields:
        seconds = [getattr(run, part) for run in runs]
        figures[f"{how}_{part.removesuffix('_s')}_p50_s"] = round(percentile(seconds, 0.50), 2)
        figures[f"{how}_{part.removesuffix('_s')}_p99_s"] = round(percentile(seconds, 0.99), 2)
    return figures


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

    def run(self, end: Callable[[Process], None]) -> _Parts:
        """End one dispatcher in this way once both share the load; return how long leases stopped somewhere, in parts."""
        self._stream(until=self._shared)
        gone, heir = self._pair.pop(0), self._pair[0]
        signal_s = time.time()
        end(gone)
        leased_s = self._stream(until=self._all_leased) - signal_s
        gained_s = max(_told_s(heir, "gained shards"), signal_s) - signal_s
        restored_s = max(_told_s(heir, r"shard \d+ restored") - signal_s, gained_s)
        gone.stop()
        self._pair.append(self._start())
        self._shared_since_s = time.monotonic()
        return _Parts(gained_s, restored_s - gained_s, leased_s - restored_s)

    def close(self) -> None:
        """Close the clients."""
        self._worker.close()
        self._load.close()

    def _start(self) -> Process:
        self._started += 1
        return self._place.dispatcher(f"dispatcher-{self._started}", environ={"JOBS_LOG_FORMAT": "text"})

    def _all_leased(self, first: dict[int, float]) -> bool:
        return len(first) == self._place.shards

    def _shared(self, first: dict[int, float]) -> bool:
        """Say whether every shard leases, and both dispatchers hold some for a while."""
        now = time.monotonic()
        if now >= self._ask_s:
            self._ask_s = now + _ASK_EVERY_S
            self._worker.offer()  # the new dispatcher knows of no slots, and the other answers all the jobs it has
            shares = self._admin.shares(f"{self._place.prefix}dispatcher")
            if len(shares) != len(self._pair) or not all(shares):
                self._shared_since_s = now
        return self._all_leased(first) and now - self._shared_since_s >= _SETTLED_S

    def _stream(self, until: Callable[[dict[int, float]], bool]) -> float:
        """Submit and answer until `until(first lease by shard)`; return the Unix time of the last shard's first lease."""
        mine: set[str] = set()
        first: dict[int, float] = {}

        def leased(lease: Lease, _at_ms: int) -> None:
            if lease.job_id in mine:
                first.setdefault(shard_of(lease.job_id, self._place.shards), time.time())

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


def _told_s(dispatcher: Process, what: str) -> float:
    """Return the Unix time at which a dispatcher last logged `what`."""
    times = re.findall(rf"^(\S+)Z \[info +\] {what}", dispatcher.log.read_text(), re.MULTILINE)
    return datetime.fromisoformat(f"{times[-1]}+00:00").timestamp()
