"""Does MODULE:APP name an application? Asked in a process of its own, since the answer runs the user's code.

    python -m scheduler.worker.trial MODULE:APP

Standard output is the answer: nothing, or why not. What the user's code prints goes to standard error.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

from scheduler.worker.child import why_not


def trial(target: str, environ: Mapping[str, str]) -> str:
    """Return why a worker's child could not load `target` in this directory and environment, or nothing."""
    ended = subprocess.run(
        [sys.executable, "-m", "scheduler.worker.trial", target],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a worker shows it when it loads the application in earnest
        env=dict(environ),
        check=False,
    )
    said = ended.stdout.decode(errors="replace")
    return said or (f"importing it ended the process (exit {ended.returncode})" if ended.returncode else "")


def main() -> None:
    """Answer, and end at once: what the user's code has started is of no use."""
    answer = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(why_not(sys.argv[1]).encode(errors="replace"))
    os._exit(0)


if __name__ == "__main__":
    main()
