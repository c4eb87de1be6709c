"""The fixture under test, whether or not the package is installed here with its entry points."""

import pytest

from scheduler import testing
from scheduler.testing.plugin import jobs

__all__ = ["jobs"]


@pytest.fixture
def in_memory():
    return testing.in_memory
