"""The scene of each integration test."""

from collections.abc import Iterator

import pytest

from tests.integration.scene import Scene, scene_on


@pytest.fixture
def scene(kafka: str) -> Iterator[Scene]:
    with scene_on(kafka) as made:
        yield made
