"""The fixture under test, whether or not the package is installed here with its entry points."""

from scheduler.testing.plugin import jobs

__all__ = ["jobs"]
