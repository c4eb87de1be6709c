"""`App`: where jobs are declared. Nothing here does I/O; the connection is made by the first submit."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FunctionType, MappingProxyType
from typing import Any, Final, TypedDict, TypeVar, Unpack, cast

from scheduler.client.durations import Duration
from scheduler.client.errors import InvalidJob
from scheduler.client.options import BackoffOptions, Priority, Terms, terms_with, text
from scheduler.client.ports import Submitter
from scheduler.client.reference import JobRef
from scheduler.client.request import Request
from scheduler.client.showing import shown, unknown
from scheduler.core import bounds
from scheduler.worker.context import Context
from scheduler.worker.definition import Requirements, size_bytes
from scheduler.worker.jobs import Decorator, Handler, Job
from scheduler.worker.lifespan import Lifespan

R = TypeVar("R")
L = TypeVar("L", bound=Lifespan)

Around = Callable[[Context], AbstractContextManager[Any]]
A = TypeVar("A", bound=Around)

_NAME: Final = re.compile(r"[A-Za-z0-9._:/-]+")
_substitutes: Final[list[Submitter]] = []


class JobOptions(TypedDict, total=False):
    """What `app.job` takes: how jobs of this kind are submitted unless `options` says otherwise, and how they run.

    `name` stands in the type instead of the function's name, so that a function can be renamed while jobs wait.
    `give_up_on` are exceptions that dead-letter at once. `memory` (`"4GB"`) bounds a child that runs it.
    """

    name: str
    queue: str
    priority: Priority
    max_attempts: int
    timeout: Duration
    expires_in: Duration
    backoff: BackoffOptions
    labels: Mapping[str, str]
    content_type: str
    memory: str
    give_up_on: tuple[type[BaseException], ...]
    cron: str
    tz: str


_RUNNING: Final = frozenset({"name", "memory", "give_up_on", "cron", "tz"})


class App:
    """A set of jobs that workers import as `module:app`. `name` begins each job's type."""

    def __init__(
        self,
        name: str,
        *,
        tenant: str = "default",
        connection: Mapping[str, str] | None = None,
        prefix: str | None = None,
    ) -> None:
        """Take the names. `connection` and `prefix` are as for `Client`, and read when first needed."""
        if not _NAME.fullmatch(str(name)):
            raise InvalidJob(f"App: name: {shown(name)} is not made of A-Z a-z 0-9 . _ : - /")
        self.name = name
        self.tenant = tenant
        self._connection = connection
        self._prefix = prefix
        self._jobs: dict[str, Job[..., Any]] = {}
        self._lifespans: list[Lifespan] = []
        self._arounds: list[Around] = []
        self._submitter: Submitter | None = None

    @property
    def jobs(self) -> Mapping[str, Job[..., Any]]:
        """The jobs by type."""
        return MappingProxyType(self._jobs)

    @property
    def lifespans(self) -> tuple[Lifespan, ...]:
        """What `lifespan` collected, for `lifespan.open_sync` and `open_async`."""
        return tuple(self._lifespans)

    def job(self, fn: None = None, /, **options: Unpack[JobOptions]) -> Decorator:
        """Make a function a job: `@app.job(queue="email")`. Raises `InvalidJob` for an option that can't be."""
        if fn is not None:
            raise InvalidJob("write @app.job() with parentheses")

        def decorate(function: Callable[..., Any]) -> Job[..., Any]:
            return self._add(function, options)

        return cast("Decorator", decorate)

    def lifespan(self, function: L) -> L:
        """Open what this function's context manager yields in each child; handlers get it by `ctx.get(type)`."""
        self._lifespans.append(function)
        return function

    def around(self, function: A) -> A:
        """Run each job inside this function's context manager: `(ctx) -> context manager`, first one outermost."""
        self._arounds.append(function)
        return function

    @contextmanager
    def surroundings(self, ctx: Context) -> Iterator[None]:
        """Enter what `around` collected; for whoever runs a handler."""
        with ExitStack() as stack:
            for around in self._arounds:
                stack.enter_context(around(ctx))
            yield

    def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Submit a stream of requests, in order; return when Kafka has them all.

        Takes them as fast as they can be sent, so a generator of any length needs memory for its refs only. At the
        first trouble it stops: see `SubmitError` for how to go on.
        """
        return self.submitter().submit_many(requests)

    def submitter(self) -> Submitter:
        """Return what takes this app's jobs in."""
        if _substitutes:
            return _substitutes[-1]
        if self._submitter is None:
            from scheduler.client.config import config_from
            from scheduler.client.submitter import KafkaSubmitter

            self._submitter = KafkaSubmitter(config_from(connection=self._connection, prefix=self._prefix))
        return self._submitter

    def __repr__(self) -> str:
        """Show the name."""
        return f"<App {self.name}: {len(self._jobs)} jobs>"

    def _add(self, function: Callable[..., Any], options: JobOptions) -> Job[..., Any]:
        if not isinstance(function, FunctionType):
            raise InvalidJob(f"{self.name}: @app.job decorates functions, not {shown(function)}")
        name = function.__name__
        for option in options:
            if option not in JobOptions.__annotations__:
                raise InvalidJob(f"{name}: {unknown('option', option, JobOptions.__annotations__)}")
        handler = Handler(self._type(name, options), function, _requirements(name, options))
        submitting = {option: value for option, value in options.items() if option not in _RUNNING}
        terms = terms_with(Terms(tenant=self.tenant), name, submitting)
        job: Job[..., Any] = Job(handler, terms, self.submitter)
        self._refuse_double(handler)
        self._jobs[handler.type] = job
        return job

    def _type(self, function_name: str, options: JobOptions) -> str:
        name = options.get("name", function_name)
        full = f"{self.name}.{name}"
        if not _NAME.fullmatch(full) or len(full) > bounds.NAME_MAX_CHARS:
            raise InvalidJob(
                f"{function_name}: the type {shown(full)} is not 1 to {bounds.NAME_MAX_CHARS} of A-Z a-z 0-9 . _ : - /: "
                "give it a name=",
            )
        return full

    def _refuse_double(self, handler: Handler) -> None:
        known = self._jobs.get(handler.type)
        if known is not None and _place(known.fn) != _place(
            handler.fn
        ):  # the same place: its module was reloaded
            raise InvalidJob(
                f"{handler.name}: {handler.type} is taken by {_place(known.fn)}: give one of them a name="
            )


@contextmanager
def submitting_to(substitute: Submitter) -> Iterator[None]:
    """Let every app submit to `substitute` inside the block. For `scheduler.testing`."""
    _substitutes.append(substitute)
    try:
        yield
    finally:
        _substitutes.remove(substitute)


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"


def _requirements(name: str, options: JobOptions) -> Requirements:
    for option in ("cron", "tz", "name"):
        _checked(name, option, text, options.get(option, ""))
    if "tz" in options and "cron" not in options:
        raise InvalidJob(f"{name}: tz: it is the time zone of a cron=, which is missing")
    return Requirements(
        memory_bytes=_checked(name, "memory", size_bytes, options["memory"]) if "memory" in options else 0,
        give_up_on=_checked(name, "give_up_on", _exceptions, options.get("give_up_on", ())),
        cron=options.get("cron", ""),
        tz=options.get("tz", ""),
    )


T = TypeVar("T")


def _checked(name: str, option: str, read: Callable[[Any], T], value: object) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise InvalidJob(f"{name}: {option}: {error}") from None


def _exceptions(value: object) -> tuple[type[BaseException], ...]:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise ValueError(f"{shown(value)} is not a tuple of exception classes")
    return kinds
