"""What faults act upon, what they count, and how long they may."""

import random
import threading
from collections import Counter

from tests.chaos.brokers import Brokers
from tests.chaos.evidence import Freeze
from tests.chaos.fleet import Fleet, Member
from tests.chaos.proxy import Proxy


class World:
    """Fleet and brokers of a run. `over` ends every fault that is on."""

    def __init__(self, fleet: Fleet, brokers: Brokers, prefix: str) -> None:
        self.fleet = fleet
        self.brokers = brokers
        self.prefix = prefix
        self.over = threading.Event()
        self.done: Counter[str] = Counter()  # what faults did: kills, stops, ...
        self.frozen: list[Freeze] = []

    @property
    def network(self) -> Proxy:
        return self.brokers.proxy

    def a_worker(self, chance: random.Random) -> Member:
        return chance.choice(self.fleet.workers)

    def a_dispatcher(self, chance: random.Random) -> Member:
        return chance.choice(self.fleet.dispatchers)

    def pause(self, seconds: float) -> None:
        """Let time pass; no longer than the faults last."""
        self.over.wait(seconds)

    def count(self, what: str) -> None:
        self.done[what] += 1
