"""Small installations on a real broker, and dispatchers' logs on them."""

import contextlib
import uuid

import pytest

from scheduler import devkafka
from scheduler.kafka.admin import Admin
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout
from scheduler.kafka.log import KafkaLog, LogSettings
from tests.kafka.seen import Seen


@pytest.fixture
def properties(kafka):
    return {"bootstrap.servers": kafka, "heartbeat.interval.ms": "500"}


@pytest.fixture
def layout(fresh_prefix):
    return Layout(shards=4, leases={"default": 2}, prefix=fresh_prefix)


@pytest.fixture
def installed(properties, layout):
    apply(properties, layout)
    yield layout
    # Thousands of idle partitions make the broker slow for the tests that follow.
    admin = Admin(properties)
    names = [layout.prefix + name for name in admin.cluster(layout.prefix).topics]
    for deleted in admin.client.delete_topics(names, operation_timeout=10).values():
        deleted.result(20)


@pytest.fixture
def open_log(properties, installed):
    """Open a dispatcher's log; all are closed after the test."""
    with contextlib.ExitStack() as stack:

        def opened(name="a", shards=4, **overrides):
            boot_id = uuid.uuid4().hex[:8]
            settings = LogSettings(
                {**properties, **overrides}, name, boot_id, installed.prefix, shards=shards
            )
            log = KafkaLog(settings)
            stack.callback(log.close)
            return log

        yield opened


@pytest.fixture
def own_broker():
    """A broker that the test may freeze; it takes two seconds or so."""
    try:
        cluster = devkafka.start()
    except devkafka.DevKafkaError as error:
        pytest.skip(f"no broker: {error}")
    with cluster:
        (node,) = cluster.nodes
        yield node


@pytest.fixture
def owner(open_log):
    """A log that owns all four shards."""
    seen = Seen(open_log())
    return seen.until(lambda: len(seen.owned) == 4)
