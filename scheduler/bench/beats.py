"""What idle slots and long runs cost a dispatcher: the offers and beats of many workers, and nothing else."""

import time
from collections.abc import Callable, Mapping

from scheduler.bench.crowd import ROUND_S, Crowd
from scheduler.bench.load import Load
from scheduler.bench.site import Process, site

_IDLE_S = 8.0


def beats(properties: Mapping[str, str], workers: int, slots: int, seconds: int) -> dict[str, float]:
    """Let `workers` hold jobs in half of their `slots` and offer the rest; take what that costs the dispatcher.

    What a dispatcher takes to whom nobody talks is measured before, and subtracted. So is the first beat of each
    lease, as `first_core_percent`: it changes the job's state, which is part of what a long job costs.
    """
    with site(properties) as place:
        dispatcher = place.dispatcher()
        load = Load(place.properties, place.prefix, place.shards)
        crowd = Crowd(place.properties, place.prefix, place.shards, workers)
        load.publish(1)
        crowd.take(1)
        idle = _core_share(dispatcher, lambda: time.sleep(_IDLE_S))
        held = workers * (slots // 2)
        load.publish(held)
        crowd.take(held)
        leased = crowd.leased
        first = _core_share(dispatcher, lambda: crowd.talk(ROUND_S, slots - slots // 2))
        sent = crowd.sent
        busy = _core_share(dispatcher, lambda: crowd.talk(seconds, slots - slots // 2))
        sent, lost = crowd.sent - sent, crowd.leased - leased
        crowd.close()
    return {
        "workers": workers,
        "leases": held,
        "lost": lost,
        "records_per_s": round(sent / seconds),
        "idle_core_percent": round(idle * 100, 2),
        "first_core_percent": round((first - idle) * 100, 2),
        "core_percent": round((busy - idle) * 100, 2),
        "us_per_record": round((busy - idle) * seconds / sent * 1e6, 1),
    }


def _core_share(dispatcher: Process, meanwhile: Callable[[], None]) -> float:
    cpu_s, began = dispatcher.cpu_s(), time.monotonic()
    meanwhile()
    return (dispatcher.cpu_s() - cpu_s) / (time.monotonic() - began)
