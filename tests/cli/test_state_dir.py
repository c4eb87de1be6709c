"""Where dispatchers of one machine keep their local state: never two in one directory."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from scheduler.cli import exits
from scheduler.cli.dispatcher import default_state_dir, given_state_dir
from scheduler.dispatcher.config import Ground

GROUND = Ground("cluster", "jobs.", 8, {}, 8, 86_400_000)
HOLD = """
import sys
from pathlib import Path
from scheduler.cli.dispatcher import given_state_dir
given_state_dir(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def another() -> Iterator[Callable[[object], subprocess.Popen[str]]]:
    """Have another process take a directory."""
    started: list[subprocess.Popen[str]] = []

    def take(path: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLD, str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "taken\n"
        return process

    yield take
    for process in started:
        process.kill()
        process.communicate()


def test_dispatchers_of_one_name_get_a_directory_each(monkeypatch, tmp_path, another):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    base = tmp_path / "kafka-scheduler" / "dispatcher"
    another(base / "cluster-jobs.d")
    another(base / "cluster-jobs.d.2")
    assert default_state_dir("d", GROUND) == base / "cluster-jobs.d.3"


def test_the_directory_of_a_killed_dispatcher_is_taken_up_again(monkeypatch, tmp_path, another):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    base = tmp_path / "kafka-scheduler" / "dispatcher"
    process = another(base / "cluster-jobs.d")
    process.kill()
    process.wait()
    assert default_state_dir("d", GROUND) == base / "cluster-jobs.d"


def test_a_given_directory_that_another_one_uses_is_refused(tmp_path, another):
    another(tmp_path / "state")
    with pytest.raises(exits.Failed, match=r"another dispatcher uses .*: give each a --state-dir of its own"):
        given_state_dir(tmp_path / "state")


def test_a_directory_that_cannot_be_made_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(exits.Failed, match="the local state can't be kept at"):
        given_state_dir(tmp_path / "file" / "state")
