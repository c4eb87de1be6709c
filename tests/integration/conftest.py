"""The scene of each integration test."""

from collections.abc import Iterator

import pytest

from tests.integration.scene import Scene


@pytest.fixture
def scene(kafka: str, fresh_prefix: str) -> Iterator[Scene]:
    made = Scene(kafka, fresh_prefix)
    yield made
    made.judge.close()
    made.site.close()
