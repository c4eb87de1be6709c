"""A child of a worker: imports the application, runs its handlers, speaks to the parent over an inherited socket.

    python -m scheduler.worker.child FD MODULE:APP EXECUTOR SLOTS

EXECUTOR is `process`, `asyncio`, `thread`, or `auto`: `asyncio` if every job is async, else `process`.
Standard output goes to standard error: the parent may need the former for itself.
"""

import importlib
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn

from scheduler.worker import joblogs
from scheduler.worker.app import App
from scheduler.worker.definition import Kind
from scheduler.worker.executors.handlers import Handlers
from scheduler.worker.upstream import Upstream
from scheduler.worker.wire import Broken, Ready, TypeInfo

_IMPORTLIB: Final = importlib.__file__


class NoAppError(Exception):
    """`MODULE:APP` names no application. The message says what is wrong."""


def load_app(target: str) -> App:
    """Import the application that `module:app` names, from the working directory or the path."""
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise NoAppError(f"{target!r} is not MODULE:APP")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name not in _with_parents(module_name):
            raise
        raise NoAppError(f"No module named {error.name!r} in the current directory or on the path") from None
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        found = (
            f"{module_name} has no {attribute!r}"
            if app is None
            else f"{target} is no App, but of type {type(app).__name__}"
        )
        apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
        there = f"; its App is {' or '.join(apps)}" if apps else ""
        raise NoAppError(f"{found}{there}")
    if not app.jobs:
        raise NoAppError(f"{target} has no jobs: no function is decorated with @{attribute}.job()")
    return app


def why_not(target: str) -> str:
    """Import the application as a child does; return why that can't be done, or nothing."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        load_app(target)
    except BaseException as error:  # noqa: BLE001 - a module may raise anything at import, SystemExit too
        return _told(error)
    return ""


def _told(error: BaseException) -> str:
    """Return a sentence, or the traceback from the user's first frame on."""
    if isinstance(error, NoAppError):
        return str(error)
    user_tb = _without_imports(error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, user_tb)).rstrip()


def executor_for(app: App, wanted: str) -> str:
    """Return the executor kind: the wanted one, or the one that fits all jobs."""
    if wanted != "auto":
        return wanted
    kinds = {job.definition.kind for job in app.jobs.values()}
    return "asyncio" if kinds == {Kind.ASYNC} else "process"


def serve(upstream: Upstream, target: str, wanted: str, slots: int) -> None:
    """Be a child until the parent says exit. Raises what the import or a lifespan raises."""
    app = load_app(target)
    executor = executor_for(app, wanted)
    types = {name: TypeInfo(job.definition.memory_bytes) for name, job in app.jobs.items()}
    handlers = Handlers(app)

    def ready() -> None:
        upstream.send(Ready(executor, types))

    if executor == "asyncio":
        from scheduler.worker.executors.loop import run_on_loop

        run_on_loop(handlers, upstream, ready, slots)
    elif executor == "thread":
        from scheduler.worker.executors.threads import run_in_threads

        run_in_threads(handlers, upstream, ready, slots)
    else:
        from scheduler.worker.executors.serial import run_serially

        run_serially(handlers, upstream, ready)


def _with_parents(module_name: str) -> list[str]:
    parts = module_name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _without_imports(tb: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the user's first frame on: what leads there is this file's and the import system's."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(
        (__file__, "<frozen importlib", _IMPORTLIB)
    ):
        tb = tb.tb_next
    return tb


def main() -> NoReturn:
    """Be a child as the command line says."""
    fd, target, wanted, slots = sys.argv[1:5]
    upstream = Upstream(int(fd))
    upstream.listen()
    sys.path.insert(0, str(Path.cwd()))
    joblogs.configure()
    try:
        serve(upstream, target, wanted, int(slots))
    except BaseException as error:  # noqa: BLE001 - as above, and lifespans too
        upstream.send(Broken(_told(error)))
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()
