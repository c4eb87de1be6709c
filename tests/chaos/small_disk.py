"""A disk of some megabytes for one dispatcher, where this account may mount one."""

import subprocess
from pathlib import Path

MEGABYTES = 64


class NoSmallDiskError(Exception):
    """None can be mounted here; the message says why."""


def mount(folder: Path) -> None:
    """Put a small disk at `folder`. Raises NoSmallDiskError."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "chaos", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NoSmallDiskError("there is no mount command") from None
    except subprocess.CalledProcessError as error:
        raise NoSmallDiskError(error.stderr.strip()) from None


def unmount(folder: Path) -> None:
    """Take it away, also while a file in it is open."""
    subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
