"""pytest in a process of its own, with the plugin loaded as an installed package would load it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def run_tests(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    plugin = ("-p", "no:scheduler", "-p", "scheduler.testing.plugin")
    return python(
        "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *plugin, *arguments, cwd=folder
    )
