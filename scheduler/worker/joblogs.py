"""Log records made inside a job carry `job_id`, `attempt` and `tenant`; outside of one they are empty."""

import logging
import sys
from contextvars import ContextVar, Token
from typing import Final

from scheduler.worker.context import RunInfo

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s%(of_job)s"

_current: Final[ContextVar[RunInfo | None]] = ContextVar("jobs_current_run", default=None)


def enter(info: RunInfo) -> Token[RunInfo | None]:
    """Say that this context runs a job from here on; give the token to `leave`."""
    return _current.set(info)


def leave(token: Token[RunInfo | None]) -> None:
    """Say that this context no longer runs the job."""
    _current.reset(token)


class JobFilter(logging.Filter):
    """Adds the job to every record that passes; put it on handlers of your own to have the fields there."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with its job."""
        info = _current.get()
        record.job_id = info.job_id if info else ""
        record.attempt = info.attempt if info else ""
        record.tenant = info.tenant if info else ""
        record.of_job = f" [job {info.job_id} attempt {info.attempt} tenant {info.tenant}]" if info else ""
        return True


def configure() -> None:
    """Log to standard error, unless the application configures logging itself: it may, at import."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(logging.Formatter(FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
