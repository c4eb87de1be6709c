"""A newcomer's five minutes: the README's blocks, as pasted, against a real broker.

Cloning and the demo are left out: the test stands in a folder that looks like the clone after them.
"""

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.docs.pages import README, ROOT, blocks, commands, sections

DEADLINE_S = 60
PART = sections(README.read_text())["Five minutes"]
FIRST_TERMINAL, DEV, SECOND_TERMINAL = (block.replace("$ ", "") for block in blocks(PART, "console"))
JOBS, SUBMIT = blocks(PART, "python")
READY, RUNS, _ = blocks(PART, "")


@pytest.fixture
def clone(tmp_path):
    """A folder named as the clone, with its virtual environment."""
    folder = tmp_path / "kafka-scheduler"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture
def environment(tmp_path, kafka, fresh_prefix):
    """What both terminals know: a broker, and names and state that are nobody else's."""
    mine = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka,
        "JOBS_PREFIX": fresh_prefix,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONUNBUFFERED": "1",
    }
    if not (Path(sys.prefix) / "bin" / "scheduler").exists():
        mine |= uninstalled(tmp_path / "bin")
    return {**os.environ, **mine}


def uninstalled(folder):
    """What `pip install` of this checkout would have added to the environment."""
    folder.mkdir()
    command = folder / "scheduler"
    command.write_text('#!/bin/sh\nexec python -m scheduler "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


class Terminal:
    """A shell that runs a script; its lines can be waited for."""

    def __init__(self, script, folder, environment):
        self.process = subprocess.Popen(
            [shutil.which("bash"), "-e", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines = []
        self._new = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, *patterns):
        """Wait until each pattern has matched a line, in whatever order."""
        deadline = time.monotonic() + DEADLINE_S
        missing = set(patterns)
        while missing:
            try:
                line = self._new.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                line = None
            assert line is not None, f"never seen: {sorted(missing)}; seen: {self.lines}"
            missing = {pattern for pattern in missing if not re.fullmatch(pattern, line)}

    def descendants(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def press_ctrl_c(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def _read(self):
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())
                self._new.put(line.rstrip())
        self._new.put(None)


@pytest.fixture
def open_terminal(clone, environment):
    """Opens shells in the clone, and ends what a failed test left running in them."""
    opened = []

    def start(script):
        opened.append(Terminal(script, clone, environment))
        return opened[-1]

    yield start
    for terminal in opened:
        if terminal.process.poll() is None:
            end_all([psutil.Process(terminal.process.pid), *terminal.descendants()])
            terminal.end()


def end_all(processes):
    """Ask the shell and `scheduler dev` to end, which ends its children; whoever stays is killed."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=DEADLINE_S)
    for process in alive:
        process.kill()


def as_pattern(line):
    """A line that the README shows, whatever the name of the machine and what `…` leaves out."""
    return re.escape(line).replace("laptop", r"\S+").replace("…", ".*")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_blocks_of_the_readme_work_as_pasted(clone, environment, open_terminal):
    subprocess.run([shutil.which("bash"), "-e", "-c", FIRST_TERMINAL], cwd=clone, env=environment, check=True)
    (clone.parent / "first-jobs" / "jobs.py").write_text(JOBS)

    first = open_terminal(FIRST_TERMINAL + DEV)
    first.wait_for(as_pattern(READY.rstrip()))

    second = subprocess.run(
        [shutil.which("bash"), "-e", "-c", SECOND_TERMINAL],
        cwd=clone,
        env=environment,
        input=SUBMIT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (second.returncode, second.stderr) == (0, "")
    topic = f"{environment['JOBS_PREFIX']}submit.bulk"
    assert re.fullmatch(rf"JobRef\('[0-9a-f-]{{36}}', {re.escape(topic)}/\d@0\)\n", second.stdout)

    first.wait_for(*map(as_pattern, RUNS.splitlines()))
    runs = [line for line in first.lines if line.startswith("worker     | attempt")]
    assert sorted(runs) == sorted(line for line in RUNS.splitlines() if "…" not in line)

    running = first.descendants()
    assert len(running) > 3
    first.press_ctrl_c()
    assert first.end() == 0
    _, alive = psutil.wait_procs(running, timeout=DEADLINE_S)
    assert alive == []


def test_the_demo_is_the_first_thing_that_the_readme_says():
    assert commands(README.read_text())[2] == "./scripts/demo"
