"""The pytest plugin: the fixture `jobs`.

pytest imports this module in every run wherever the package is installed, so it imports nothing else of ours
before a test asks for the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scheduler.testing.jobs import Jobs


@pytest.fixture
def jobs() -> Iterator["Jobs"]:
    """A scheduler in memory: whatever this test submits lands here, `run` and `advance` run it in virtual time."""
    from scheduler.testing.opening import in_memory

    with in_memory() as opened:
        yield opened
