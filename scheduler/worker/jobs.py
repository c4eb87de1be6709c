"""`Job`: a handler as its submitters see it, typed by the handler's own signature."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import cached_property, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from scheduler.client.options import Options, Terms, terms_with
from scheduler.client.payloads import is_json
from scheduler.client.ports import Submitter
from scheduler.client.reference import JobRef
from scheduler.client.request import Request, Template
from scheduler.worker.arguments import Arguments
from scheduler.worker.context import Context
from scheduler.worker.definition import JobDefinition, Kind, Requirements
from scheduler.worker.detached import detached_context
from scheduler.worker.outcomes import Cancel, Fail, Outcome, Retry, Snooze

P = ParamSpec("P")
R = TypeVar("R")

Asked = Retry | Snooze | Fail | Cancel
"""The outcomes one by one: from a union of classes type checkers subtract these exactly, not subclasses of a root."""


class Handler:
    """A decorated function, shared by all `Job` objects that differ in their options only.

    Its annotations are resolved when they are first needed: while its module is being imported, names that it
    defines further down do not exist yet.
    """

    def __init__(self, job_type: str, fn: Callable[..., Any], requirements: Requirements) -> None:
        """Take the function as it is."""
        self.type = job_type
        self.fn = fn
        self.name = fn.__name__
        self.requirements = requirements
        self.kind = Kind.ASYNC if inspect.iscoroutinefunction(fn) else Kind.SYNC

    @cached_property
    def arguments(self) -> Arguments:
        """The parameters. Raises `InvalidJob` if they can't be sent."""
        return Arguments(self.name, self.fn)

    @cached_property
    def definition(self) -> JobDefinition:
        """What the worker needs. Raises `InvalidJob` if the parameters can't be sent."""
        return JobDefinition(self.type, self.fn, self.kind, self.arguments, self.requirements)


class Job(Generic[P, R]):
    """A kind of job. Submitting takes the handler's own arguments, without its context."""

    def __init__(self, handler: Handler, terms: Terms, submitter: Callable[[], Submitter]) -> None:
        """Take what `App` made of the decorated function."""
        self._handler = handler
        self._submitter = submitter
        self._template = Template(handler.name, handler.type, terms)
        update_wrapper(self, handler.fn)

    @property
    def type(self) -> str:
        """`<app>.<function>`: what is in the job record."""
        return self._handler.type

    @property
    def fn(self) -> Callable[..., Any]:
        """The function itself, with its context parameter."""
        return self._handler.fn

    @property
    def definition(self) -> JobDefinition:
        """What the worker needs to run it."""
        return self._handler.definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the handler here and now, with a context that no worker knows of. For tests and scripts.

        An outcome that the handler returns is raised. An async handler runs to its end; inside an event loop, where
        that can't be, await `fn` instead.
        """
        terms = self._template.terms
        given: tuple[Any, ...] = args
        if self._handler.arguments.takes_context:
            given = (detached_context(self.type, terms.tenant, terms.queue, terms.max_attempts), *args)
        value = self.fn(*given, **kwargs)
        if self._handler.kind is Kind.ASYNC:
            value = _finished(value)
        if isinstance(value, Outcome):
            raise value
        result: R = value
        return result

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request[R]:
        """Return a request for `app.submit_many`, `ctx.emit` or `options(after=...)`, with an id of its own."""
        arguments, content_type = self._handler.arguments, self._template.terms.content_type
        if is_json(content_type):
            return self._template.request(arguments.encode(args, kwargs))
        return self._template.request(arguments.encode_raw(args, kwargs, content_type))

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobRef[R]:
        """Submit a job; return when Kafka has it. Raises `InvalidJob`, `NotSubmitted` or `SubmitUnknown`."""
        return self._submitter().submit(self.request(*args, **kwargs))

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> JobRef[R]:
        """Submit a job from an event loop; return when Kafka has it. Raises as `submit` does."""
        return await self._submitter().asubmit(self.request(*args, **kwargs))

    def options(self, **options: Unpack[Options]) -> "Job[P, R]":
        """Return this job under other terms. Raises `InvalidJob` for an option that can't be."""
        terms = terms_with(self._template.terms, self._handler.name, options)
        return Job(self._handler, terms, self._submitter)

    def __repr__(self) -> str:
        """Show the type."""
        return f"<Job {self.type}>"


class Decorator(Protocol):
    """What `app.job(...)` returns. The order decides: async before sync, with a context before without."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R | Asked]], /) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R | Asked]], /) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R | Asked], /) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Asked], /) -> Job[P, R]: ...


def _finished(awaitable: Any) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaitable)
    awaitable.close()
    raise RuntimeError("an async job can't be called inside an event loop: await its .fn(...) instead")
