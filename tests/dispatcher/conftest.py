"""A world with one active dispatcher, and a worker."""

from collections.abc import Iterator

import pytest

from tests.dispatcher.world import Dispatcher, World


@pytest.fixture
def world() -> Iterator[World]:
    """Four shards and one active dispatcher, `d1`; the whole history is checked at the end."""
    world = World()
    world.start()
    world.outlive()
    yield world
    world.finish()


@pytest.fixture
def d1(world) -> Dispatcher:
    return world.dispatchers["d1"]


@pytest.fixture
def worker(world):
    return world.worker()
