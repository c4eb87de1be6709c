"""How the last process ended is known to the next one."""

import os

import pytest

from scheduler.observe.last_exit import FAILED, KILLED, STOPPED, STUCK, LastExit


def test_of_the_first_process_there_is_no_word(tmp_path):
    assert LastExit(tmp_path).begun() is None


@pytest.mark.parametrize("how", [STOPPED, FAILED, STUCK])
def test_how_and_why_it_ended_is_read_by_the_next(tmp_path, how):
    first = LastExit(tmp_path)
    first.begun()
    first.ended(how, "because")
    last = LastExit(tmp_path).begun()
    assert (last.how, last.reason, last.pid) == (how, "because", os.getpid())
    assert last.at.endswith("+00:00")


def test_one_that_ended_without_a_word_was_killed(tmp_path):
    LastExit(tmp_path).begun()
    last = LastExit(tmp_path).begun()
    assert last.how == KILLED
    assert "without a word" in last.reason


def test_a_reason_is_kept_to_its_end_and_bounded(tmp_path):
    kept = LastExit(tmp_path)
    kept.begun()
    kept.ended(FAILED, "x" * 1_000_000 + "the error")
    assert LastExit(tmp_path).begun().reason.endswith("the error")
    assert (tmp_path / "last-exit.json").stat().st_size < 20_000


@pytest.mark.parametrize("content", [b"", b"no json", b'{"how": 1}', b"\xff"])
def test_a_file_that_says_nothing_stops_nobody(tmp_path, content, caplog):
    (tmp_path / "last-exit.json").write_bytes(content)
    assert LastExit(tmp_path).begun() is None
    assert "can't be read" in caplog.text
    assert LastExit(tmp_path).begun().how == KILLED


def test_a_directory_that_takes_no_file_stops_nobody(tmp_path, caplog):
    kept = LastExit(tmp_path / "gone")
    assert kept.begun() is None
    kept.ended(STOPPED)
    assert "can't be written" in caplog.text
