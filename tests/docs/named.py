"""What pages name: places in the code and tests, looked up where they should be."""

import re
import subprocess
import sys
from functools import cache

from tests.docs.pages import ROOT
from tests.docs.test_design import FILE, PLACE, defined

TEST = re.compile(r"`((?:\w+/)+test_\w+\.py)::(\w+)`")


def missing_places(text):
    """Return the places and files of a page that the package does not have."""
    places = [(path, name) for path, names in PLACE.findall(text) for name in names.split(", ")]
    missing = [f"{path}: {name}" for path, name in places if not has(path, name)]
    return missing + [path for path in FILE.findall(text) if not file_of(path).exists()]


def has(path, name):
    return file_of(path).exists() and name in defined(file_of(path))


def file_of(path):
    return ROOT / "scheduler" / path


def missing_tests(text):
    """Return the tests of a page that pytest does not collect."""
    named = {f"tests/{path}::{name}" for path, name in TEST.findall(text)}
    return sorted(named - collected())


@cache
def collected():
    """Return `file::function` of every test, whatever its class and parameters."""
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,  # what can't be collected is missing, and so named
    ).stdout
    ids = [line.partition("[")[0].split("::") for line in shown.splitlines() if "::" in line]
    return {f"{parts[0]}::{parts[-1]}" for parts in ids}
