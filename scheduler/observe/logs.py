"""Logs of the long-running commands: lines for people, or with `JOBS_LOG_FORMAT=json` one JSON object a line."""

import logging
import os
import sys

import structlog


def configure_logs(level: int = logging.INFO) -> None:
    """Send all of the standard library's logging to standard error in the form that suits it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering()],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def _rendering() -> list[structlog.typing.Processor]:
    if os.environ.get("JOBS_LOG_FORMAT") == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # The plain traceback, since the rich one shows local variables, and payloads are among them.
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    ]
