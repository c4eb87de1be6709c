"""What befalls brokers."""

import random

from scheduler.devkafka.node import Node
from tests.chaos.world import World


def kill_broker(world: World, chance: random.Random) -> None:
    """kill -9 of any broker."""
    with world.brokers.turn:
        _kill(world, chance.choice(world.brokers.nodes), chance)


def kill_leader(world: World, chance: random.Random) -> None:
    """kill -9 of the broker that leads the reports of a shard."""
    with world.brokers.turn:
        leader = world.brokers.leader_of(f"{world.prefix}reports", chance.randrange(2))
        _kill(world, world.brokers.nodes[leader], chance)


def kill_controller(world: World, chance: random.Random) -> None:
    """kill -9 of the broker that leads the controllers."""
    with world.brokers.turn:
        _kill(world, world.brokers.nodes[world.brokers.controller()], chance)


def stop_broker(world: World, chance: random.Random) -> None:
    """SIGSTOP: connections stay open, and nothing is answered."""
    node = chance.choice(world.brokers.nodes)
    with world.brokers.turn:
        node.suspend()
        world.count("stops")
        try:
            world.pause(chance.uniform(1, 15))
        finally:
            node.resume()


def restart_brokers(world: World, chance: random.Random) -> None:
    """SIGTERM to one after the other, as at an upgrade."""
    with world.brokers.turn:
        for node in world.brokers.nodes:
            if world.over.is_set():
                return
            world.count("restarts")
            node.stop()
            world.brokers.start(node)


def too_few_in_sync(world: World, chance: random.Random) -> None:
    """Topics want every replica in sync, and one broker is away: nothing can be written."""
    brokers = world.brokers
    with brokers.turn:
        brokers.require_in_sync(world.prefix, len(brokers.nodes))
        node = chance.choice(brokers.nodes)
        world.count("too few in sync")
        try:
            node.stop()
            world.pause(chance.uniform(5, 14))
        finally:
            brokers.start(node)
            brokers.require_in_sync(world.prefix, len(brokers.nodes) - 1)


def _kill(world: World, node: Node, chance: random.Random) -> None:
    node.kill()
    world.count("kills")
    try:
        world.pause(chance.uniform(0, 5))
    finally:
        world.brokers.start(node)
