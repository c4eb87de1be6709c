"""Failpoints: named places where a test has the process killed, as an accident would."""

import os
import signal
from collections.abc import Callable, Mapping


def failpoint_from(environ: Mapping[str, str]) -> Callable[[str], None]:
    """Return what `JOBS_FAILPOINT=name[:n]` asks for: SIGKILL at the n-th passage (the first) of that point."""
    name, _, count = environ.get("JOBS_FAILPOINT", "").partition(":")
    left = int(count or 1)

    def pass_by(point: str) -> None:
        nonlocal left
        if point == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return pass_by
