"""A dispatcher's process leaves word of its end, and ends when it is stuck."""

import signal
import subprocess
import sys

import pytest

from scheduler.observe.last_exit import LastExit

BLOCKS = {
    "stopped": "got_on()",
    "failed": "raise Unavailable('no broker')",
    "stuck": "import time; time.sleep(600)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
}


def lived(directory, block):
    """Run a process that lives like a dispatcher, at a hundredth of the time."""
    code = (
        "import sys; from pathlib import Path; from scheduler.cli.life import told; from scheduler.cli.exits import *\n"
        "def on_last(how): print('last', how)\n"
        f"with told(Path(sys.argv[1]), on_last, tick_s=0.01) as got_on:\n    {block}\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(directory)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        ("stopped", 0, ""),
        ("failed", 1, "no broker"),
        ("stuck", 1, "line 4, in <module>"),
        ("killed", -signal.SIGKILL, "without a word"),
    ],
)
def test_the_next_process_knows_how_the_last_one_ended(tmp_path, how, code, why):
    first = lived(tmp_path, BLOCKS[how])
    assert first.returncode == code
    assert first.stdout == ""
    second = lived(tmp_path, BLOCKS["stopped"])
    assert second.stdout == f"last {how}\n"
    assert why in second.stderr
    assert bool(second.stderr) == (how != "stopped")
    assert LastExit(tmp_path).begun().how == "stopped"


def test_a_stuck_process_says_so_itself_with_where_it_stood(tmp_path):
    stuck = lived(tmp_path, BLOCKS["stuck"])
    assert "no turn has ended for minutes" in stuck.stderr
    assert "line 4, in <module>" in stuck.stderr
