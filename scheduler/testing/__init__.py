"""Testing jobs without Kafka: the pytest fixture `jobs`, and what it shows.

    from scheduler.testing import Jobs

The fixture comes with the package (`scheduler.testing.plugin`); the names here are for annotations and for tests
that don't run under pytest. They are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.testing.errors import NeverIdle, NoCancelYet, NoResult
    from scheduler.testing.jobs import Jobs
    from scheduler.testing.opening import in_memory
    from scheduler.testing.seen import DeadLetter, JobRun, Submitted

__all__ = ["DeadLetter", "JobRun", "Jobs", "NeverIdle", "NoCancelYet", "NoResult", "Submitted", "in_memory"]

_HOMES = {
    "scheduler.testing.errors": ("NeverIdle", "NoCancelYet", "NoResult"),
    "scheduler.testing.jobs": ("Jobs",),
    "scheduler.testing.opening": ("in_memory",),
    "scheduler.testing.seen": ("DeadLetter", "JobRun", "Submitted"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name of this package's public interface."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'scheduler.testing' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
