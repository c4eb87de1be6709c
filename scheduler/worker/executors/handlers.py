"""Calling a handler, sync or async, and turning whatever comes of it into an outcome."""

from typing import Any

from scheduler.worker import joblogs
from scheduler.worker.actions import Left, Outcome
from scheduler.worker.app import App
from scheduler.worker.context import Context
from scheduler.worker.definition import JobDefinition, Kind
from scheduler.worker.lifespan import Resources
from scheduler.worker.liverun import LiveRun
from scheduler.worker.performing import outcome_of_error, outcome_of_value


class Handlers:
    """The handlers of one application."""

    def __init__(self, app: App) -> None:
        """Take the application, imported."""
        self._app = app

    @property
    def lifespans(self) -> tuple[Any, ...]:
        """What to open before the first run."""
        return self._app.lifespans

    def has(self, kind: Kind) -> bool:
        """Say whether any handler is of this kind."""
        return any(job.definition.kind is kind for job in self._app.jobs.values())

    def definition(self, live: LiveRun) -> JobDefinition:
        """Return the handler of a run."""
        return self._app.jobs[live.begin.spec.type].definition

    def perform(self, live: LiveRun, resources: Resources) -> Outcome:
        """Run a sync handler to its end. Never raises: the world's errors and the user's are outcomes."""
        definition = self.definition(live)
        info = live.info()
        token = joblogs.enter(info)
        try:
            ctx = Context(info, live, resources)
            args, kwargs = _arguments(definition, live, ctx)
            with self._app.surroundings(ctx):
                value = definition.fn(*args, **kwargs)
            return outcome_of_value(value, ctx.emitted)
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a handler ends the run, not the child
            return outcome_of_error(error, definition)
        finally:
            joblogs.leave(token)

    async def aperform(self, live: LiveRun, resources: Resources) -> Outcome:
        """Run an async handler to its end. Never raises; a cancellation of its task says why it was cancelled."""
        definition = self.definition(live)
        info = live.info()
        token = joblogs.enter(info)
        try:
            ctx = Context(info, live, resources)
            args, kwargs = _arguments(definition, live, ctx)
            with self._app.surroundings(ctx):
                value = await definition.fn(*args, **kwargs)
            return outcome_of_value(value, ctx.emitted)
        except BaseException as error:  # noqa: BLE001 - as above
            reason = live.stopping()
            if reason and _is_cancellation(error):
                return Left(reason)
            return outcome_of_error(error, definition)
        finally:
            joblogs.leave(token)


def _arguments(
    definition: JobDefinition, live: LiveRun, ctx: Context
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    spec = live.begin.spec
    call = definition.arguments.decode(spec.payload, spec.content_type)
    args = (ctx, *call.args) if definition.takes_context else call.args
    return args, call.kwargs


def _is_cancellation(error: BaseException) -> bool:
    from asyncio import CancelledError

    return isinstance(error, CancelledError)
