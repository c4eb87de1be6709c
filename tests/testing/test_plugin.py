"""The plugin is loaded in every pytest run of whoever has the package installed: it must cost nothing there."""

import tomllib
from importlib import import_module

from tests.testing.child import ROOT, python

LOADED = """
import sys, pytest
before = set(sys.modules)
import scheduler.testing.plugin
print(" ".join(sorted(set(sys.modules) - before)))
"""

WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
from scheduler import App
from scheduler.testing import in_memory

app = App("plain")

@app.job()
def job() -> int:
    return 1

with in_memory() as jobs:
    print(job.submit().result())
"""


def test_it_imports_itself_only(tmp_path):
    done = python("-c", LOADED, cwd=tmp_path)
    assert done.stdout.split() == ["scheduler", "scheduler.testing", "scheduler.testing.plugin"], done.stderr


def test_the_entry_point_names_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = import_module(project["entry-points"]["pytest11"]["scheduler"])
    assert plugin.__name__ == "scheduler.testing.plugin" and hasattr(plugin, "jobs")


def test_the_public_names_are_there():
    testing = import_module("scheduler.testing")
    assert dir(testing) == sorted(testing.__all__)
    assert all(getattr(testing, name).__name__ == name for name in testing.__all__)


def test_pytest_is_not_needed_without_the_fixture(tmp_path):
    done = python("-c", WITHOUT_PYTEST, cwd=tmp_path)
    assert done.stdout == "1\n", done.stderr
