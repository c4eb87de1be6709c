"""``scheduler dev MODULE:APP``: a broker, the topics, a dispatcher, and a worker that starts anew when code changes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from scheduler import devkafka
from scheduler.cli import exits
from scheduler.cli.app_run import AppRun
from scheduler.cli.child import Child, say
from scheduler.cli.signals import signals_call, terminated_like_interrupted

AT_ONCE_S = 5.0
"""A child that ends sooner never worked: bad code or bad settings, which no new start mends."""

WORKER_PATIENCE_S = 30.0
"""A worker that is told to stop lets its jobs finish for up to 25 s."""

DISPATCHER_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Stop:
    """A signal asked us to end."""


@dataclass(frozen=True)
class CodeChanged:
    """Python files below the current directory were changed; ``path`` is one of them."""

    path: str


@dataclass(frozen=True)
class Ended:
    """A child ended, told to or not."""

    child: Child


Event = Stop | CodeChanged | Ended


def run_app(run: AppRun) -> int:
    """Run everything until Ctrl-C or SIGTERM, then stop it: worker, dispatcher, broker. Returns an exit code.

    Raises exits.Failed if the application or the settings can't be loaded, before anything is started, and if a part
    ends by itself; and what ``devkafka.attach_or_start`` raises.
    """
    run.require_loadable()
    events: SimpleQueue[Event] = SimpleQueue()  # its put may be called in a signal handler
    with terminated_like_interrupted():
        cluster = devkafka.attach_or_start(run.port, devkafka.dev_cluster_dir(), say=say)
    with cluster, signals_call(lambda: events.put(Stop())):
        say(f"KAFKA_BOOTSTRAP_SERVERS={cluster.bootstrap}")
        parts = _Parts(cluster.bootstrap, run, events)
        try:
            parts.run()
        finally:
            parts.stop()
    return exits.OK


class _Parts:
    """The dispatcher and the worker, and what happens to them."""

    def __init__(
        self,
        bootstrap: str,
        run: AppRun,
        events: "SimpleQueue[Event]",
    ) -> None:
        self._globals = ["-b", bootstrap, *run.global_arguments]
        self._environment = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap}
        self._app = run
        self._events = events
        self._running: list[Child] = []
        self._watching = threading.Event()  # set: watch no longer
        self._watcher: threading.Thread | None = None
        self._reloaded = False

    def run(self) -> None:
        """Start everything and react until told to stop."""
        topics = self._start("topics", self._app.topics_command())
        if topics.wait():
            raise exits.Failed(
                f"the topics could not be made (exit {topics.exit_code}); its last lines are above"
            )
        self._start("dispatcher", self._app.dispatcher_command())
        self._start("worker", self._app.worker_command())
        say("watching *.py below the current directory; Ctrl-C ends everything")
        self._watcher = watch_code(
            Path.cwd(), self._watching, lambda path: self._events.put(CodeChanged(path))
        )
        while True:
            event = self._events.get()
            if isinstance(event, Stop):
                return
            if isinstance(event, CodeChanged):
                self._restart_worker(event.path)
            elif event.child in self._running and not event.child.stopping:
                self._has_ended(event.child)

    def stop(self) -> None:
        """Last started, first stopped: a worker hands its leases back while the dispatcher still listens."""
        self._watching.set()
        while self._running:
            child = self._running[-1]
            say(f"stopping the {child.name}")
            self._stop(child)
        if self._watcher is not None:
            self._watcher.join()

    def _start(self, name: str, arguments: Sequence[str]) -> Child:
        child = Child(
            name,
            [*self._globals, *arguments],
            self._environment,
            lambda ended: self._events.put(Ended(ended)),
        )
        self._running.append(child)
        return child

    def _stop(self, child: Child) -> None:
        child.stop(WORKER_PATIENCE_S if child.name == "worker" else DISPATCHER_PATIENCE_S)
        self._running.remove(child)

    def _restart_worker(self, path: str) -> None:
        say(f"{path} changed: starting the worker anew")
        for child in [child for child in self._running if child.name == "worker"]:
            self._stop(child)
        self._reloaded = True
        self._start("worker", self._app.worker_command())

    def _has_ended(self, child: Child) -> None:
        """A worker is waited for: its code is being edited. Anything else can't go on."""
        self._running.remove(child)
        if child.name == "topics":
            return
        at_once = child.age_s < AT_ONCE_S
        if child.name == "worker" and (self._reloaded or not at_once):
            say(
                f"the worker ended by itself (exit {child.exit_code}); it starts anew when a Python file changes"
            )
            return
        when = "ended at once" if at_once else "ended by itself"
        raise exits.Failed(f"the {child.name} {when} (exit {child.exit_code}); its last lines are above")


def watch_code(directory: Path, stop: threading.Event, changed: Callable[[str], None]) -> threading.Thread:
    """Call ``changed`` with a path relative to ``directory`` when Python files below it change, until ``stop``."""
    from watchfiles import PythonFilter, watch

    def run() -> None:
        for changes in watch(directory, watch_filter=PythonFilter(), stop_event=stop, raise_interrupt=False):
            first = min(path for _, path in changes)
            changed(str(Path(first).relative_to(directory)))

    thread = threading.Thread(target=run, name="code watcher", daemon=True)
    thread.start()
    return thread
