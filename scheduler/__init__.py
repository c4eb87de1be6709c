"""A job scheduler that needs nothing but Kafka.

    from scheduler import App, Context, Fail, Message, Retry, Snooze

Names are imported when first used: `import scheduler` costs nothing, and nothing connects before the first submit.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.client.client import AsyncClient, Client
    from scheduler.client.errors import (
        InvalidJob,
        JobsError,
        NoGateway,
        NotSubmitted,
        SubmitError,
        SubmitUnknown,
    )
    from scheduler.client.options import Options
    from scheduler.client.reference import JobRef, Receipt
    from scheduler.client.request import Request
    from scheduler.worker.app import App
    from scheduler.worker.context import Context, Message, Stopped
    from scheduler.worker.jobs import Job
    from scheduler.worker.outcomes import Cancel, Fail, Outcome, Retry, Snooze

__version__ = "0.1.0"

__all__ = [
    "App",
    "AsyncClient",
    "Cancel",
    "Client",
    "Context",
    "Fail",
    "InvalidJob",
    "Job",
    "JobRef",
    "JobsError",
    "Message",
    "NoGateway",
    "NotSubmitted",
    "Options",
    "Outcome",
    "Receipt",
    "Request",
    "Retry",
    "Snooze",
    "Stopped",
    "SubmitError",
    "SubmitUnknown",
    "__version__",
]

_HOMES = {
    "scheduler.client.client": ("AsyncClient", "Client"),
    "scheduler.client.errors": (
        "InvalidJob", "JobsError", "NoGateway", "NotSubmitted", "SubmitError", "SubmitUnknown",
    ),
    "scheduler.client.options": ("Options",),
    "scheduler.client.reference": ("JobRef", "Receipt"),
    "scheduler.client.request": ("Request",),
    "scheduler.worker.app": ("App",),
    "scheduler.worker.context": ("Context", "Message", "Stopped"),
    "scheduler.worker.jobs": ("Job",),
    "scheduler.worker.outcomes": ("Cancel", "Fail", "Outcome", "Retry", "Snooze"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name of this package's public interface."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'scheduler' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
