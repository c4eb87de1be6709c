"""``scheduler dev``: the broker in the foreground, and everything for an app with stand-ins for its parts."""

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from scheduler import devkafka
from scheduler.cli import exits
from scheduler.cli.app_run import AppRun
from scheduler.cli.main import run
from scheduler.devkafka.state_dir import archives_dir
from scheduler.kafka.readiness import answers

DEADLINE_S = 60

STAND_IN = """
import signal, sys, threading
role = next(argument for argument in sys.argv if argument in ("topics", "dispatcher", "worker"))
print(role, "started with", *sys.argv[1:], flush=True)
if role == "topics" or (role == "worker" and "bad" in sys.argv):
    sys.exit(role == "worker")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(role, "ends", flush=True)))
signal.pause()
"""

JOBS = """
from scheduler import App
app = App("shop")
@app.job()
def nothing() -> None: ...
"""


class Dev:
    """A running ``scheduler`` command whose lines can be waited for."""

    def __init__(self, arguments, cwd, **environ):
        program = textwrap.dedent(
            """
            import sys
            from scheduler.cli import child
            if sys.argv[1]:
                child.COMMAND = (sys.executable, sys.argv[1])
            from scheduler.cli.main import main
            main(sys.argv[2:])
            """
        )
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "JOBS_DEV_KAFKA": "java", **environ}
        root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
        environment["PYTHONPATH"] = root
        self.process = subprocess.Popen(  # ended by the fixture that made it
            [sys.executable, "-c", program, *arguments],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._queue = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def line_with(self, text):
        """The next line that holds ``text``."""
        return self.lines_with(text)[0]

    def lines_with(self, *texts):
        """The next lines that hold ``texts``, in whatever order they come."""
        found = {}
        while len(found) < len(texts):
            line = self._queue.get(timeout=DEADLINE_S)
            assert line is not None, f"ended without {texts!r}: {self.lines}"
            found.update({text: line for text in texts if text in line and text not in found})
        return [found[text] for text in texts]

    def saw(self, text, within_s):
        """Does a line with ``text`` come within that time?"""
        try:
            while text not in (self._queue.get(timeout=within_s) or ""):
                pass
        except queue.Empty:
            return False
        return True

    def end(self):
        """How it ended."""
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def _read(self):
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())
                self._queue.put(line.rstrip())
        self._queue.put(None)


@pytest.fixture
def start_dev():
    """Starts ``scheduler`` commands, and ends those that a failed test left running."""
    started = []

    def start(*arguments, **more):
        started.append(Dev(*arguments, **more))
        return started[-1]

    yield start
    for dev in started:
        dev.process.terminate()
        dev.end()


@pytest.fixture
def archives_kept(tmp_path):
    """The class archives under another state directory: making one takes 10 s."""
    archives_dir().mkdir(parents=True, exist_ok=True)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "archives").symlink_to(archives_dir())


@pytest.fixture
def stand_in(tmp_path):
    path = tmp_path / "stand_in.txt"  # no .py: only the app's own files are to be seen changing
    path.write_text(STAND_IN)
    return str(path)


@pytest.fixture
def work(tmp_path):
    path = tmp_path / "work"
    path.mkdir()
    (path / "jobs.py").write_text(JOBS)
    return path


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_broker_in_the_foreground_ends_cleanly(start_dev, tmp_path, number):
    arguments = ["", "dev", "kafka", "--port", "19977", "--directory", str(tmp_path / "data")]
    dev = start_dev(arguments, tmp_path)
    assert dev.line_with("KAFKA_BOOTSTRAP") == "KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:19977"
    assert answers({"bootstrap.servers": "127.0.0.1:19977"}, 5)
    again = start_dev(arguments, tmp_path)
    again.line_with("port 19977 of 127.0.0.1 is taken by another program")
    assert again.end() == 1
    dev.process.send_signal(number)
    assert dev.end() == 0
    assert not answers({"bootstrap.servers": "127.0.0.1:19977"}, 0.2)


@pytest.mark.broker
def test_stop_ends_the_broker_that_another_terminal_runs(start_dev, tmp_path, archives_kept):
    state = {"JOBS_DEV_DIR": str(tmp_path / "state")}
    dev = start_dev(["", "dev", "kafka", "--port", "19978"], tmp_path, **state)
    dev.line_with("KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:19978")
    start_dev(["", "dev", "stop"], tmp_path, **state).line_with("stopped 1 process")
    assert dev.end() == 0
    start_dev(["", "dev", "stop"], tmp_path, **state).line_with("nothing was running")
    start_dev(["", "dev", "clean"], tmp_path, **state).line_with("removed the data")
    assert not (tmp_path / "state" / "dev-1").exists()


def test_an_app_gets_its_topics_dispatcher_and_worker_and_a_new_worker_when_code_changes(
    start_dev, kafka, stand_in, work
):
    dev = start_dev(
        [stand_in, "-X", "client.id=me", "dev", "jobs:app", "--slots", "3"],
        work,
        KAFKA_BOOTSTRAP_SERVERS=kafka,
    )
    globals_ = f"-b {kafka} -X client.id=me"
    dev.line_with(f"topics     | topics started with {globals_} topics apply --shards 8 --execute")
    dev.lines_with(
        f"dispatcher | dispatcher started with {globals_} dispatcher",
        f"worker     | worker started with {globals_} worker jobs:app --slots 3 --pool default",
        "watching *.py",
    )
    for number in range(DEADLINE_S):  # the watcher may need a moment
        (work / "jobs.py").write_text(f"{JOBS}number = {number}\n")
        if dev.saw("jobs.py changed: starting the worker anew", within_s=1):
            break
    dev.line_with("worker     | worker ends")
    dev.line_with("worker     | worker started")
    dev.process.send_signal(signal.SIGINT)
    assert dev.end() == 0
    endings = [line for line in dev.lines if line.endswith(" ends")]
    assert endings[-2:] == ["worker     | worker ends", "dispatcher | dispatcher ends"]
    assert answers({"bootstrap.servers": kafka}, 5)


def test_a_worker_that_ends_at_once_stops_everything_and_says_so(start_dev, kafka, stand_in, work):
    dev = start_dev([stand_in, "dev", "jobs:app", "--pool", "bad"], work, KAFKA_BOOTSTRAP_SERVERS=kafka)
    dev.line_with("Error: the worker ended at once (exit 1); its last lines are above")
    assert dev.end() == 1
    assert "dev        | stopping the dispatcher" in dev.lines


def test_parts_are_told_what_they_need_to_know_of_pool_executor_and_settings(
    start_dev, kafka, stand_in, work
):
    (work / "settings.yaml").write_text("queues:\n  webhooks: {pool: web}\n")
    options = ["--pool", "gpu", "--executor", "thread", "--settings", "settings.yaml"]
    dev = start_dev([stand_in, "dev", "jobs:app", *options], work, KAFKA_BOOTSTRAP_SERVERS=kafka)
    dev.line_with(f"with -b {kafka} topics apply --shards 8 --leases gpu=64,web=64 --execute")
    dev.lines_with(
        f"with -b {kafka} dispatcher --settings settings.yaml",
        f"with -b {kafka} worker jobs:app --slots 4 --pool gpu --executor thread",
    )


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (
            "jbos:app",
            [],
            "jbos:app can't be loaded: No module named 'jbos' in the current directory or on the path",
        ),
        ("jobs:ap", [], "jobs:ap can't be loaded: jobs has no 'ap'; its App is app"),
        (
            "jobs:nothing",
            [],
            "jobs:nothing can't be loaded: jobs:nothing is no App, but of type Job; its App is app",
        ),
        ("broken:app", [], "broken:app can't be loaded: Traceback (most recent call last):"),
        ("gone:app", [], "gone:app can't be loaded: importing it ended the process (exit 3)"),
        ("jobs:app", ["--settings", "bad.yaml"], "queues.email.colour: unknown setting"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_a_broker_is_started(
    monkeypatch, capsys, work, target, options, said
):
    def no_broker(*_arguments, **_more):
        raise AssertionError("a broker was asked for")

    (work / "broken.py").write_text("raise RuntimeError('no database')\n")
    (work / "gone.py").write_text("import os\nos._exit(3)\n")
    (work / "bad.yaml").write_text("queues: {email: {colour: red}}\n")
    monkeypatch.chdir(work)
    monkeypatch.setattr(devkafka, "attach_or_start", no_broker)
    assert run(["dev", target, *options]) == exits.FAILED
    assert capsys.readouterr().err.startswith(f"Error: {said}")


def test_an_application_may_read_at_import_where_the_broker_will_be(monkeypatch, capsys, work):
    monkeypatch.chdir(work)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    (work / "jobs.py").write_text(f"import os\nos.environ['KAFKA_BOOTSTRAP_SERVERS']\nprint('loud')\n{JOBS}")
    AppRun("jobs:app", 9092, 8, 4, "default", None, None, ()).require_loadable()
    assert capsys.readouterr() == ("", "")


def test_a_given_broker_that_does_not_answer(start_dev, work):
    dev = start_dev(["", "dev", "jobs:app"], work, KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    dev.line_with(
        "Error: no broker answered at 127.0.0.1:1 within 10 s; start it, or unset KAFKA_BOOTSTRAP_SERVERS"
    )
    assert dev.end() == 5
