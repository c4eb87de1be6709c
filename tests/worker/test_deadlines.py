"""The table between parent and guard, and frames between parent and child."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Emit, Verdict
from scheduler.worker.actions import Failed, Left, Snoozed, Succeeded
from scheduler.worker.deadlines import DeadlineTable
from scheduler.worker.wire import (
    Broken,
    Finished,
    FrameError,
    Progress,
    Ready,
    Save,
    TypeInfo,
    UpReader,
    frame,
)


@pytest.fixture
def ends():
    ours = DeadlineTable.new()
    theirs = DeadlineTable(os.dup(ours.fd))
    yield ours, theirs
    ours.close()
    theirs.close()


def test_the_guard_sees_what_the_parent_writes(ends):
    ours, theirs = ends
    ours.enter(1, 100)
    ours.enter(2, 200)
    ours.set_deadline(2, 5_000)
    assert list(theirs.groups()) == [100, 200]
    assert list(theirs.deadlines()) == [(200, 5_000)]
    ours.leave(1)
    assert list(theirs.groups()) == [200]


def test_a_new_group_never_stands_beside_the_deadline_of_the_old_one(ends):
    ours, theirs = ends
    ours.enter(1, 100)
    ours.set_deadline(1, 5_000)
    ours.leave(1)
    ours.enter(1, 101)
    assert list(theirs.deadlines()) == []


MESSAGES = [
    Ready("process", {"t.x": TypeInfo(5)}),
    Broken("why"),
    Finished(1, Succeeded(b"1", "", (Emit("t", b"k", b"v"),))),
    Finished(2, Failed(Verdict.RETRY, ErrorInfo("E", "m", ("f",)), 5)),
    Finished(3, Snoozed(5)),
    Finished(4, Left("timeout")),
    Save(1, 2, b"data"),
    Progress(1, 0.5, "note"),
]


@given(st.integers(1, 40))
def test_frames_survive_any_cut_of_the_stream(size):
    stream = b"".join(frame(message) for message in MESSAGES)
    reader = UpReader()
    read = [m for at in range(0, len(stream), size) for m in reader.feed(stream[at : at + size])]
    assert read == MESSAGES


@given(st.binary(min_size=5, max_size=100))
def test_what_is_no_frame_is_an_error_or_waits_but_never_something_else(data):
    try:
        UpReader().feed(data)
    except FrameError:
        pass
