"""Another package named `scheduler` in the way is told of in a sentence."""

import pytest

import scheduler
from scheduler.cli import exits
from scheduler.cli.main import run
from scheduler.cli.other_packages import require_unhidden, require_whole
from tests.docs.pages import ROOT


@pytest.mark.parametrize("file", ["scheduler.py", "scheduler/__init__.py"])
@pytest.mark.parametrize(
    "command", [["worker", "jobs:app"], ["dev", "jobs:app"], ["dev", "--demo"], ["bench", "drain"]]
)
def test_a_file_that_hides_the_package_stops_what_would_import_it(
    tmp_path, monkeypatch, capsys, file, command
):
    hiding = tmp_path / file
    hiding.parent.mkdir(exist_ok=True)
    hiding.touch()
    monkeypatch.chdir(tmp_path)
    assert run(command) == exits.FAILED
    assert capsys.readouterr().err == (
        f"Error: {hiding} hides the package 'scheduler' from all code that runs in {tmp_path}: "
        "give it another name, or start elsewhere\n"
    )


def test_a_folder_that_is_no_package_and_our_own_checkout_hide_nothing(tmp_path):
    (tmp_path / "scheduler").mkdir()
    require_unhidden(tmp_path)
    require_unhidden(ROOT)


@pytest.mark.parametrize(
    ("distributions", "named"),
    [
        ({"scheduler": ["scheduler", "kafka-scheduler"]}, "the distribution scheduler was installed over it"),
        ({}, "another distribution was installed over it"),
    ],
)
def test_a_package_that_another_distribution_has_overwritten(monkeypatch, capsys, distributions, named):
    require_whole()
    monkeypatch.setattr(scheduler, "__all__", ["Scheduler"])
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: distributions)
    assert run(["--help"]) == exits.FAILED
    said = capsys.readouterr().err
    assert named in said
    assert "Uninstall that, then install kafka-scheduler again" in said
