"""What befalls the network between clients and brokers."""

import random

from tests.chaos.proxy import BOTH, Direction, Trouble
from tests.chaos.world import World


def cut_client(world: World, chance: random.Random) -> None:
    """Nothing passes between one process and the brokers."""
    _cut(world, chance, Trouble(_a_client(world, chance), cut=True, loses=chance.random() < 0.5))


def cut_requests(world: World, chance: random.Random) -> None:
    """What one process sends does not arrive; it still hears."""
    one_way = frozenset({Direction.REQUESTS})
    _cut(
        world, chance, Trouble(_a_client(world, chance), None, one_way, cut=True, loses=chance.random() < 0.5)
    )


def cut_answers(world: World, chance: random.Random) -> None:
    """What one process asks for is done, and it never hears so."""
    one_way = frozenset({Direction.ANSWERS})
    _cut(
        world, chance, Trouble(_a_client(world, chance), None, one_way, cut=True, loses=chance.random() < 0.7)
    )


def cut_broker(world: World, chance: random.Random) -> None:
    """A broker runs and can't be reached."""
    node = chance.choice(world.brokers.nodes)
    _cut(world, chance, Trouble(None, node.id, cut=True, loses=chance.random() < 0.5))


def lose_connections(world: World, chance: random.Random) -> None:
    """Every connection of one process breaks, and new ones work at once."""
    with world.network.troubled(Trouble(_a_client(world, chance), loses=True)):
        world.count("cuts")


def slow_client(world: World, chance: random.Random) -> None:
    """One process has a long way to the brokers."""
    trouble = Trouble(_a_client(world, chance), delay_s=chance.uniform(0.05, 0.4))
    with world.network.troubled(trouble):
        world.count("slow")
        world.pause(chance.uniform(5, 12))


def narrow_client(world: World, chance: random.Random) -> None:
    """One process has a narrow way to the brokers."""
    trouble = Trouble(_a_client(world, chance), None, BOTH, bytes_per_s=chance.uniform(4_000, 20_000))
    with world.network.troubled(trouble):
        world.count("slow")
        world.pause(chance.uniform(5, 12))


def _cut(world: World, chance: random.Random, trouble: Trouble) -> None:
    with world.network.troubled(trouble):
        world.count("cuts")
        world.pause(chance.choice((chance.uniform(0.5, 5), chance.uniform(8, 18))))


def _a_client(world: World, chance: random.Random) -> str:
    return chance.choice(world.fleet.members).name
