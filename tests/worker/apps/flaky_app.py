"""An application that can't be imported while a file is there."""

import os
from pathlib import Path

from scheduler import App

if Path(os.environ["FLAKY"]).exists():
    raise RuntimeError("not now")

app = App("f")


@app.job()
def die() -> None:
    os._exit(0)


@app.job()
def pid() -> int:
    return os.getpid()
