"""The command line's frame: quick help, the connection, exit codes."""

import json
import subprocess
import sys
import time

import click
import pytest

from scheduler.cli import exits
from scheduler.cli.connection import connection_of
from scheduler.cli.main import run, scheduler

HEAVY = {
    "aiokafka",
    "asyncio",
    "confluent_kafka",
    "fastavro",
    "jgo",
    "msgspec",
    "prometheus_client",
    "rich",
    "rocksdict",
    "yaml",
}


def test_help_imports_nothing_heavy():
    code = (
        "import json, sys\n"
        "from scheduler.cli.main import run\n"
        "run(['--help'])\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(json.loads(shown.splitlines()[-1]))


def test_help_takes_less_than_200_ms():
    def once() -> float:
        before_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "scheduler", "--help"], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - before_s

    assert min(once() for _ in range(5)) < 0.2


def test_later_sources_of_the_connection_win(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("# ours\nsasl.mechanism = PLAIN\nclient.id=from-file\nbootstrap.servers=file:1\n")
    environ = {
        "KAFKA_BOOTSTRAP_SERVERS": "env:1",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_CLIENT_ID": "from-env",
    }
    properties = connection_of(environ, "option:1", ["client.id=from-x"], file).properties
    assert properties == {
        "bootstrap.servers": "option:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "client.id": "from-x",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--no-such-option"], exits.USAGE, "No such option"),
        (["dispathcer"], exits.USAGE, "Did you mean 'dispatcher'?"),
        (["dev", "stp"], exits.USAGE, "Did you mean 'stop'?"),
        (["dev", "shop"], exits.USAGE, "'shop' is neither a command nor MODULE:APP, like shop:app"),
        (["dev", "shop.py"], exits.USAGE, "MODULE:APP, like shop:app"),
        (["-X", "no-equals-sign", "dev"], exits.USAGE, "'no-equals-sign' is not KEY=VALUE"),
        (["--command-config", "/no/such/file", "dev"], exits.USAGE, "does not exist"),
        (["--help"], exits.OK, ""),
    ],
)
def test_exit_codes_of_the_frame(capsys, arguments, code, said):
    assert run(arguments) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (exits.Failed("no"), 1),
        (click.UsageError("no"), 2),
        (exits.NotFound("no"), 3),
        (exits.PartlyDone("no"), 4),
        (exits.Unavailable("no"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes_of_commands(monkeypatch, capsys, raised, code):
    def fail() -> None:
        raise raised

    monkeypatch.setattr(scheduler, "get_command", lambda *_: click.Command("dev", callback=fail))
    assert run(["dev"]) == code
    assert "no" in capsys.readouterr().err or code == 130


def test_a_commands_return_value_is_its_exit_code(monkeypatch):
    monkeypatch.setattr(scheduler, "get_command", lambda *_: click.Command("dev", callback=lambda: 4))
    assert run(["dev"]) == 4


def test_a_properties_file_with_a_broken_line(tmp_path, capsys):
    file = tmp_path / "client.properties"
    file.write_text("client.id=a\nsasl.password secret\n")
    assert run(["--command-config", str(file), "dev", "stop"]) == exits.USAGE
    said = capsys.readouterr().err
    assert "line 2 is not key=value" in said
    assert "secret" not in said
