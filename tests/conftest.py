"""What every test may ask for: a real broker, and names that no other test uses."""

import contextlib
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


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Kafka before the first test's clock runs; if that fails, the fixture says why."""
    needed = any(item.get_closest_marker("broker") for item in session.items)
    if needed and not session.config.option.collectonly and not os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        with contextlib.suppress(devkafka.DevKafkaError):
            devkafka.prepare(say=print)


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
