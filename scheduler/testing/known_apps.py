"""Which application has the handler of a job type."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Self

from scheduler.worker.app import App
from scheduler.worker.jobs import Job


class KnownApps:
    """The apps of one test: those whose jobs it made requests of, and those it named.

    A type that none of them has is looked for in the apps that loaded modules hold.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._apps: list[App] = []
        self._found: dict[str, App] = {}

    def use(self, app: App) -> None:
        """Take an app."""
        if not any(known is app for known in self._apps):
            self._apps.append(app)
            self._found.clear()

    def learn(self, job: Job[..., object]) -> None:
        """Take the app of a job."""
        app = getattr(job._submitter, "__self__", None)  # noqa: SLF001 - no other way leads from a job to its app
        if isinstance(app, App):
            self.use(app)

    def app_of(self, job_type: str) -> App | None:
        """Return the app with a handler for `job_type`. `LookupError` if there are several."""
        found = self._found.get(job_type)
        if found is None:
            found = _only(job_type, self._apps) or _only(job_type, _loaded_apps())
            if found is not None:
                self._found[job_type] = found
        return found

    def types(self) -> frozenset[str]:
        """Return a set that holds whatever type has a handler by the time one asks."""
        return _Types(self)


class _Types(frozenset[str]):
    """The types that a worker can run; apps that a test brings up later count too."""

    _known: KnownApps

    def __new__(cls, known: KnownApps) -> Self:
        types = super().__new__(cls)
        types._known = known
        return types

    def __contains__(self, job_type: object) -> bool:
        return isinstance(job_type, str) and self._known.app_of(job_type) is not None


def _only(job_type: str, apps: list[App]) -> App | None:
    having = [app for app in apps if job_type in app.jobs]
    if len(having) > 1:
        raise LookupError(f"{len(having)} apps have a job {job_type!r}: say which one by jobs.use(app)")
    return having[0] if having else None


def _loaded_apps() -> list[App]:
    found: dict[int, App] = {}
    for module in list(sys.modules.values()):
        if issubclass(type(module), ModuleType):
            found.update((id(app), app) for app in _apps_in(module))
    return list(found.values())


def _apps_in(module: ModuleType) -> Iterator[App]:
    # Past a module's own `__getattribute__` and a value's own `__class__`: lazy ones would load things.
    contents: dict[str, object] = object.__getattribute__(module, "__dict__")
    for value in list(contents.values()):
        if issubclass(type(value), App):
            assert isinstance(value, App)
            yield value
