"""What befalls dispatchers, and the process that submits."""

import random
import time

from tests.chaos.fleet import stopped
from tests.chaos.world import World

TRANSACTION_S = 10.0


def kill_dispatcher(world: World, chance: random.Random) -> None:
    """kill -9; its shards go to the others, or back to it."""
    dispatcher = world.a_dispatcher(chance)
    with dispatcher.turn:
        dispatcher.kill()
        world.count("kills")
        world.pause(chance.uniform(0, 8))
        dispatcher.start()


def stop_dispatcher(world: World, chance: random.Random) -> None:
    """SIGSTOP, often beyond the session and the transaction; it wakes up as a zombie."""
    dispatcher = world.a_dispatcher(chance)
    with dispatcher.turn, stopped(dispatcher.tree()):
        world.count("stops")
        world.pause(chance.uniform(1, 1.5 * TRANSACTION_S))


def throttle_dispatcher(world: World, chance: random.Random) -> None:
    """A tenth of the processor's time."""
    dispatcher = world.a_dispatcher(chance)
    with dispatcher.turn:
        world.count("throttles")
        until = time.monotonic() + chance.uniform(5, 12)
        while time.monotonic() < until and not world.over.is_set():
            with stopped(dispatcher.tree()):
                time.sleep(0.9)
            time.sleep(0.1)


def restart_dispatchers(world: World, chance: random.Random) -> None:
    """SIGTERM to one after the other, as at a deploy."""
    for dispatcher in world.fleet.dispatchers:
        with dispatcher.turn:
            if world.over.is_set():
                return
            world.count("restarts")
            dispatcher.stop()
            dispatcher.start()


def kill_load(world: World, chance: random.Random) -> None:
    """kill -9 of the client: what it has a receipt for counts, and nothing else."""
    load = world.fleet.load
    with load.turn:
        load.kill()
        world.count("kills")
        load.start()
