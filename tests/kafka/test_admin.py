"""Questions to brokers that are slow or away. The brokers are the client's own mocks: only their slowness counts."""

import subprocess
import sys

import pytest

from scheduler.dispatcher.ports import LogError
from scheduler.kafka.admin import Admin

SLOW = {"bootstrap.servers": "mock", "test.mock.num.brokers": "3", "test.mock.broker.rtt": "700"}

ASKS_IN_VAIN = f"""
from scheduler.dispatcher.ports import LogError
from scheduler.kafka.admin import Admin

admin = Admin({SLOW!r})
for _ in range(3):
    try:
        admin.members("group", 0.3)
    except LogError:
        pass
for _ in range(3):  # on the same connections, behind the answers that nobody waits for any more
    admin.missing(())
print("alive")
"""


def test_a_coordinator_that_is_found_too_late_does_not_end_the_process():
    """The client ends it, where its own time has passed: `eonce->refcnt > 0`."""
    asked = subprocess.run([sys.executable, "-c", ASKS_IN_VAIN], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout) == (0, "alive\n"), asked.stderr


@pytest.mark.parametrize("within_s", [0.2, 1.0])
def test_who_asks_is_told_how_long_was_waited(within_s):
    with pytest.raises(LogError, match=rf"no broker answered at 127\.0\.0\.1:1 within {within_s:g} s"):
        Admin({"bootstrap.servers": "127.0.0.1:1"}).partitions("jobs.", within_s)
