"""Whatever a killed run leaves behind, the next one starts; what is alive and not ours stays alive."""

import json
import os
import signal
import subprocess
import sys

import pytest

from scheduler import devkafka
from scheduler.devkafka.process import ProcessIdentity
from scheduler.kafka.readiness import answers
from tests.devkafka.records import create_topic, read, write

pytestmark = pytest.mark.broker

_PARENT = """
import sys
from pathlib import Path
from scheduler import devkafka
from scheduler.devkafka import cluster_dir
cluster_dir.throwaway_clusters_dir = lambda: Path(sys.argv[1])
directory = Path(sys.argv[2]) if sys.argv[2] else None
cluster = devkafka.start(directory=directory)
print(cluster.bootstrap, cluster.nodes[0].pid, flush=True)
sys.stdin.read()
"""


class Parent:
    """A process that started a cluster and is killed without a chance to stop it."""

    def __init__(self, throwaways, directory=None):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PARENT, str(throwaways), str(directory or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bootstrap, broker = self._process.stdout.readline().split()
        self.broker = ProcessIdentity.of(int(broker))
        self.pid = self._process.pid

    def kill(self):
        with self._process:
            self._process.kill()


def test_the_broker_of_a_killed_run_is_replaced_by_one_with_its_data(own_state):
    directory = own_state / "mine"
    parent = Parent(own_state / "throwaway", directory)
    create_topic(parent.bootstrap, "kept")
    write(parent.bootstrap, "kept", [b"1"])
    parent.kill()
    assert parent.broker.is_alive()
    with devkafka.start(directory=directory) as cluster:
        assert not parent.broker.is_alive()
        assert read(cluster.bootstrap, "kept", 1) == [b"1"]


def test_a_killed_runs_throw_away_cluster_goes_when_the_next_one_starts(own_state):
    parent = Parent(own_state / "throwaway")
    parent.kill()
    with devkafka.start():
        assert not parent.broker.is_alive()
        assert len(list((own_state / "throwaway").glob("cluster-*"))) == 1


def test_a_directory_in_use_by_a_live_run_is_refused_and_attached_to(own_state):
    directory = own_state / "mine"
    parent = Parent(own_state / "throwaway", directory)
    try:
        with pytest.raises(
            devkafka.DirectoryError, match=f"in use by process {parent.pid}.*scheduler dev stop"
        ):
            devkafka.start(directory=directory)
        with devkafka.attach_or_start(directory=directory) as attached:
            assert attached.bootstrap == parent.bootstrap
        assert answers({"bootstrap.servers": parent.bootstrap}, 5)
    finally:
        parent.kill()
        parent.broker.end(5)


def test_half_formatted_data_is_formatted_anew(own_state):
    directory = own_state / "mine"
    devkafka.start(directory=directory).stop()
    (directory / "cluster.json").unlink()
    (directory / "node-1" / "data" / "bootstrap.checkpoint").unlink(missing_ok=True)
    with devkafka.start(directory=directory) as cluster:
        assert answers({"bootstrap.servers": cluster.bootstrap}, 5)


def test_a_pid_file_that_names_a_stranger_does_no_harm_to_it(own_state):
    directory = own_state / "mine"
    devkafka.start(directory=directory).stop()
    stranger = ProcessIdentity.of(os.getpid())
    (directory / "node-1" / "pid.json").write_text(json.dumps({"pid": stranger.pid, "started": "long ago"}))
    with devkafka.start(directory=directory) as cluster:
        assert answers({"bootstrap.servers": cluster.bootstrap}, 5)
        assert stranger.is_alive()


def test_brokers_left_running_on_purpose_stay_until_they_are_stopped(own_state):
    cluster = devkafka.start()
    cluster.leave_running()
    cluster.stop()
    with devkafka.start():
        assert answers({"bootstrap.servers": cluster.bootstrap}, 5)
    assert devkafka.stop_left_running() == 1
    assert not answers({"bootstrap.servers": cluster.bootstrap}, 0.2)
    devkafka.clean(archives=False)
    assert list((own_state / "throwaway").glob("cluster-*")) == []


_WAITING = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def waiting():
    """A process that waits to be ended."""
    with subprocess.Popen(_WAITING, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_run_left_on_purpose_goes_on_until_it_is_stopped_and_its_folder_stays_until_it_is_cleaned(
    own_state, waiting
):
    home = devkafka.run_dir()
    home.note({"a worker": waiting.pid})
    home.leave_running()
    devkafka.run_dir().remove()
    assert home.path.exists()
    assert waiting.poll() is None
    assert devkafka.stop_left_running() == 1
    assert waiting.wait(5) == -signal.SIGTERM
    devkafka.clean(archives=False)
    assert not home.path.exists()


def test_what_a_killed_run_started_ends_and_its_folder_goes_when_the_next_one_begins(own_state, waiting):
    killed = devkafka.run_dir()
    killed.note({"a worker": waiting.pid})
    killed.release()  # as the kernel does it
    devkafka.run_dir().remove()
    assert waiting.wait(5) == -signal.SIGTERM
    assert not killed.path.exists()


def test_the_folder_of_a_run_that_goes_on_is_left_alone(own_state, waiting):
    running = devkafka.run_dir()
    running.note({"a worker": waiting.pid})
    assert devkafka.stop_left_running() == 0
    devkafka.clean(archives=False)
    devkafka.run_dir().remove()
    assert waiting.poll() is None
    assert running.path.exists()
    running.remove()
    assert not running.path.exists()
