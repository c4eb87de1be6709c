"""Exceptions that go through a handler and are not its own: Ctrl-C, and what ends a test."""

from collections.abc import Callable

from scheduler.worker.actions import Outcome
from scheduler.worker.definition import JobDefinition

Judge = Callable[[BaseException, JobDefinition], Outcome]

_ENDS_OF_TESTS: tuple[type[BaseException], ...]
try:
    import pytest
except ImportError:  # another test runner
    _ENDS_OF_TESTS = ()
else:
    # `pytest.fail` is also how a time limit for tests ends a handler that never returns.
    _ENDS_OF_TESTS = (pytest.fail.Exception, pytest.skip.Exception, pytest.exit.Exception)


class Escapes:
    """A worker's child takes every exception of a handler for an outcome; these must reach the test instead."""

    def __init__(self) -> None:
        """Begin with none."""
        self._escaped: BaseException | None = None

    def watching(self, judge: Judge) -> Judge:
        """Return `judge` (`performing.outcome_of_error`), which notes such an exception on its way."""

        def watch(error: BaseException, definition: JobDefinition) -> Outcome:
            if isinstance(error, (KeyboardInterrupt, *_ENDS_OF_TESTS)):
                self._escaped = error
            return judge(error, definition)

        return watch

    def rethrow(self) -> None:
        """Raise what escaped from the last handler, if anything did."""
        escaped, self._escaped = self._escaped, None
        if escaped is not None:
            raise escaped
