"""A claim is held by one process at a time, and by no dead one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.claim import claim

HOLDER = """
import sys, time
from pathlib import Path
from tests.chaos.claim import claim

with claim(Path(sys.argv[1])) as beside:
    print(beside, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "job")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        yield process
        process.kill()


def test_a_second_run_sees_who_runs_beside_it(holder, tmp_path: Path):
    with claim(tmp_path / "job") as beside:
        assert beside == holder.pid


def test_a_stopped_process_holds_it_still(holder, tmp_path: Path):
    holder.send_signal(signal.SIGSTOP)
    with claim(tmp_path / "job") as beside:
        assert beside == holder.pid


def test_a_killed_process_holds_nothing(holder, tmp_path: Path):
    holder.kill()
    holder.wait()
    with claim(tmp_path / "job") as beside:
        assert beside == 0
        assert (tmp_path / "job").read_text() == str(os.getpid())


def test_a_run_that_is_over_holds_nothing(tmp_path: Path):
    for _ in range(2):
        with claim(tmp_path / "job") as beside:
            assert beside == 0
