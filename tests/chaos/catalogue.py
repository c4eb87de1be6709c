"""Every fault, and how often it comes beside the others."""

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.chaos.faults import brokers, disks, dispatchers, network, workers
from tests.chaos.world import World


class Fault(NamedTuple):
    """One kind of fault. It acts within the call, and takes back what it did."""

    act: Callable[[World, random.Random], None]
    share: int

    @property
    def name(self) -> str:
        return self.act.__name__


OF_OURS: Final = (
    Fault(workers.kill_worker, 26),
    Fault(workers.kill_machine, 8),
    Fault(workers.kill_child, 40),
    Fault(workers.kill_guard, 8),
    Fault(workers.stop_worker, 18),
    Fault(workers.stop_child, 22),
    Fault(workers.freeze_worker, 6),
    Fault(workers.throttle_worker, 3),
    Fault(workers.restart_worker, 4),
    Fault(dispatchers.kill_dispatcher, 24),
    Fault(dispatchers.stop_dispatcher, 18),
    Fault(dispatchers.throttle_dispatcher, 3),
    Fault(dispatchers.restart_dispatchers, 2),
    Fault(dispatchers.kill_load, 8),
    Fault(network.cut_client, 4),
    Fault(network.cut_requests, 4),
    Fault(network.cut_answers, 5),
    Fault(network.cut_broker, 2),
    Fault(network.lose_connections, 3),
    Fault(network.slow_client, 2),
    Fault(network.narrow_client, 2),
    Fault(disks.wipe_state, 2),
    Fault(disks.corrupt_state, 3),
    Fault(disks.stale_state, 2),
)
"""What befalls our processes, their disks and their connections."""

ANYWHERE: Final = (
    *OF_OURS,
    Fault(brokers.kill_broker, 3),
    Fault(brokers.stop_broker, 3),
    Fault(brokers.restart_brokers, 2),
)
SEVERAL_BROKERS: Final = (
    Fault(brokers.kill_leader, 2),
    Fault(brokers.kill_controller, 2),
    Fault(brokers.too_few_in_sync, 1),
)
SMALL_DISK: Final = (Fault(disks.fill_disk, 2),)
