"""Questions to brokers that are slow or away. The brokers are the client's own mocks: only their slowness counts."""

import subprocess
import sys
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import LogError
from scheduler.kafka.admin import Admin
from scheduler.kafka.asked_ends import AskedEnds
from scheduler.kafka.names import Names
from scheduler.kafka.stable_ends import StableEnds

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


class OffsetsOfALostLeader:
    """A client whose first answer is the one of a leader that went away."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = list(offsets)

    def list_offsets(self, asked, **_):
        offset = self._offsets.pop(0)
        answers = {}
        for at in asked:
            answers[at] = Future()
            answers[at].set_result(ListOffsetsResultInfo(offset, -1, -1))
        return answers

    def list_topics(self, **_):
        return None

    def poll(self, _):
        return 0


AT = TopicPartition("jobs.changelog", 3)


def test_no_offset_is_no_answer():
    """The client says -1001 and no error. Two of them at the start of a restore made an empty store a whole one."""
    admin = Admin({"bootstrap.servers": "127.0.0.1:1"})
    admin.client = OffsetsOfALostLeader(-1001, -1001, 7)
    assert [at.offset for at in admin.latest([AT], 1.0)] == [7]


def test_ends_that_nobody_told_are_left_out():
    ends = StableEnds(OffsetsOfALostLeader(5, -1001))
    ends.ask([(AT.topic, AT.partition)])
    assert ends.answer() == {}
    admin = SimpleNamespace(client=OffsetsOfALostLeader(-1001))
    asked = AskedEnds(admin, Names("jobs."))
    asked.ask([(3, Input.COMMANDS)])
    assert asked.answers() == {}
