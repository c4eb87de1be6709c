"""What the long-running commands log."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from scheduler.observe.logs import configure_logs


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """The root logger, given back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def test_on_request_a_line_is_one_json_object(capsys, monkeypatch):
    monkeypatch.setenv("JOBS_LOG_FORMAT", "json")
    configure_logs()
    logging.getLogger("scheduler.x").warning("%d shards\nlost", 3)
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told.pop("timestamp").endswith("Z")
    assert told == {"event": "3 shards\nlost", "level": "warning", "logger": "scheduler.x"}


def test_an_exception_is_part_of_its_line(capsys, monkeypatch):
    monkeypatch.setenv("JOBS_LOG_FORMAT", "json")
    configure_logs()
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("scheduler.x").exception("crashed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: why" in json.loads(line)["exception"]


def test_on_a_terminal_it_is_a_line_for_people(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure_logs()
    logging.getLogger("scheduler.x").info("three shards")
    line = capsys.readouterr().err
    assert "three shards" in line
    assert not line.startswith("{")


def test_what_is_below_the_level_is_not_told(capsys):
    configure_logs(logging.WARNING)
    logging.getLogger("scheduler.x").info("nothing new")
    assert not capsys.readouterr().err


def test_lines_for_people_show_no_local_variables(capsys):
    configure_logs()
    secret = "marker-in-a-payload"
    try:
        int(secret[:0])
    except ValueError:
        logging.getLogger("scheduler.x").exception("crashed")
    told = capsys.readouterr().err
    assert "crashed" in told
    assert "ValueError" in told
    assert secret not in told.replace(f'secret = "{secret}"', "")
