"""scripts/setup says in a sentence what a machine lacks, and costs nothing once it is done."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path):
    """What setup reads, in a folder without a virtual environment."""
    for name in ("scripts/setup", "requirements/dev.lock", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def program(directory, name, script):
    """A stand-in for a program, found before the real one."""
    path = directory / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def setup(checkout, **environ):
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", checkout / "scripts" / "setup"],
        env={**os.environ, "PATH": path, **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return ended.returncode, ended.stderr


OLD_PYTHON = 'case "$1" in -V) echo "Python 3.9.2";; *) exit 1;; esac'


def test_too_old_a_python(checkout):
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python"):
        program(checkout, name, OLD_PYTHON)
    code, said = setup(checkout)
    assert code == 1
    assert said.startswith("setup: Python 3.11 or later is needed, and python3 is Python 3.9.2;")
    assert said.rstrip().endswith("install one, or set PYTHON to its path.")


def test_a_given_python_that_is_too_old(checkout):
    code, said = setup(checkout, PYTHON=str(program(checkout, "old", OLD_PYTHON)))
    assert code == 1
    assert "old is not a Python 3.11 or later; point it at one, or unset it." in said


def test_no_venv_module(checkout):
    python = program(checkout, "bare", 'case "$2" in *venv*) exit 1;; *) exit 0;; esac')
    code, said = setup(checkout, PYTHON=str(python))
    assert code == 1
    assert "has no venv module; install it (on Debian and Ubuntu: apt-get install python3-venv)" in said


def test_little_disk(checkout):
    program(checkout, "df", "echo 'Filesystem 1024-blocks Used Available'; echo 'disk 9 9 20480'")
    code, said = setup(checkout)
    assert code == 1
    assert said == "setup: only 20 MiB are free on this disk, and 1024 are needed; free some.\n"


def test_no_network_for_the_packages(checkout):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
    code, said = setup(checkout, PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="", **nowhere)
    assert code == 1
    assert said.rstrip().endswith("or name a package index that you can reach in PIP_INDEX_URL.")


def test_a_finished_setup_is_seen_by_its_stamp_until_the_lock_changes(checkout):
    environment = checkout / ".venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").symlink_to(sys.executable)
    program(checkout / ".venv", "scheduler", "")
    lock = checkout / "requirements" / "dev.lock"
    fingerprint = lock.read_bytes() + (checkout / "pyproject.toml").read_bytes() + sys.version.encode()
    (checkout / ".venv" / "stamp").write_text(hashlib.sha256(fingerprint).hexdigest())
    assert setup(checkout, PYTHON="/nowhere") == (0, "")
    lock.write_text("")
    assert setup(checkout, PYTHON="/nowhere")[0] == 1
