"""What befalls workers."""

import random
import signal
import time

import psutil

from tests.chaos.evidence import Freeze
from tests.chaos.fleet import send, stopped
from tests.chaos.ledger import boot_ms
from tests.chaos.world import World

LEASE_S = 10.0


def kill_worker(world: World, chance: random.Random) -> None:
    """kill -9 of the parent. The guard ends its children."""
    worker = world.a_worker(chance)
    with worker.turn:
        worker.kill()
        world.count("kills")
        world.pause(chance.uniform(0, 3))
        worker.start()


def kill_machine(world: World, chance: random.Random) -> None:
    """kill -9 of the parent, its guard and its children, as when the machine goes."""
    worker = world.a_worker(chance)
    with worker.turn:
        tree = worker.tree()
        with stopped(tree):  # so that nobody starts or ends another meanwhile
            for process in reversed(tree):
                send(process, signal.SIGKILL)
        worker.kill()
        world.count("kills")
        world.pause(chance.uniform(0, 8))
        worker.start()


def kill_child(world: World, chance: random.Random) -> None:
    """kill -9 of a process that runs handlers."""
    worker = world.a_worker(chance)
    with worker.turn:
        for child in _some(worker.children(), chance):
            send(child, signal.SIGKILL)
            world.count("kills")


def kill_guard(world: World, chance: random.Random) -> None:
    """kill -9 of the guard. The parent may not go on without one."""
    worker = world.a_worker(chance)
    with worker.turn:
        for guard in worker.guard():
            send(guard, signal.SIGKILL)
            world.count("kills")
        world.pause(3)
        worker.start()


def stop_worker(world: World, chance: random.Random) -> None:
    """SIGSTOP of the parent, often beyond its leases. The guard ends what may no longer run."""
    worker = world.a_worker(chance)
    with worker.turn, stopped(worker.tree()[:1]):
        world.count("stops")
        world.pause(chance.uniform(2, 2 * LEASE_S))


def stop_child(world: World, chance: random.Random) -> None:
    """SIGSTOP of a process that runs handlers."""
    worker = world.a_worker(chance)
    with worker.turn, stopped(_some(worker.children(), chance)):
        world.count("stops")
        world.pause(chance.uniform(2, 1.5 * LEASE_S))


def freeze_worker(world: World, chance: random.Random) -> None:
    """SIGSTOP of everything at once, as when a machine is paused: its guard can't guard.

    A run that outlives its lease this way goes on for the blink until the thawed guard looks. That is the one overlap
    that no process here could prevent, so it is noted and judged apart.
    """
    worker = world.a_worker(chance)
    with worker.turn:
        tree, since = worker.tree(), boot_ms()
        with stopped(tree):
            world.count("stops")
            world.pause(chance.uniform(2, 2 * LEASE_S))
        world.frozen += [Freeze(process.pid, since, boot_ms()) for process in tree]


def throttle_worker(world: World, chance: random.Random) -> None:
    """A third of the processor's time, in slices that are shorter than any margin."""
    worker = world.a_worker(chance)
    with worker.turn:
        world.count("throttles")
        until = time.monotonic() + chance.uniform(5, 12)
        while time.monotonic() < until and not world.over.is_set():
            with stopped(worker.tree()):
                time.sleep(0.4)
            time.sleep(0.2)


def restart_worker(world: World, chance: random.Random) -> None:
    """SIGTERM, as at a deploy."""
    worker = world.a_worker(chance)
    with worker.turn:
        world.count("restarts")
        worker.stop()
        worker.start()


def _some(processes: list[psutil.Process], chance: random.Random) -> list[psutil.Process]:
    """Return one of them, or none where there are none."""
    return [chance.choice(processes)] if processes else []
