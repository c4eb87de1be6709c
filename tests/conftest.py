"""What every test may ask for: a real broker, and names that no other test uses."""

import os
import uuid
from collections.abc import Iterator

import pytest

from scheduler import devkafka


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses the broker is marked so: ``-m 'not broker'`` leaves it out."""
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """``bootstrap.servers`` of one real broker for the whole session; topics are told apart by ``fresh_prefix``."""
    try:
        cluster = devkafka.attach_or_start()
    except devkafka.DevKafkaError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no broker: {error}")
        pytest.skip(f"no broker: {error}")
    with cluster:
        yield cluster.bootstrap


@pytest.fixture
def fresh_prefix() -> str:
    """A prefix for topics, groups and transactional ids that no other test ever used, such as ``t3f9a01c7-``."""
    return f"t{uuid.uuid4().hex[:8]}-"
