"""Searches of small worlds. The slow ones are left to `./scripts/model`, which takes them all."""

import pytest

from tests.model import runs
from tests.model.bounds import SMALLEST
from tests.model.cli import found, main
from tests.model.trace import told

HOLDING = [run for run in (*runs.ALL_ON, *runs.HARMLESS) if not run.slow]
BREAKING = [run for run in (*runs.BROKEN, *runs.PAIRS, *runs.BEYOND) if not run.slow]


def name(run):
    return run.about or " ".join(run.off)


@pytest.mark.parametrize("run", HOLDING, ids=name)
def test_nothing_goes_wrong(run):
    _, result, _ = found(run)
    assert result.violated == ""
    assert result.states > 1_000


@pytest.mark.parametrize("run", BREAKING, ids=name)
def test_what_goes_wrong_is_found(run):
    model, result, _ = found(run)
    assert result.violated == run.finds
    assert len(told(model, result)) > result.steps


def test_a_trace_tells_each_step_in_words(capsys):
    assert main(["--off", "leases_after_commit"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "off: leases_after_commit; bounds: decisions=1 aborts=1",
        "tick 0  dispatcher A grants epoch 1 to worker 1, whose offer is 0 ticks old",
        "tick 0  worker 1 reads the lease of epoch 1",
    ]


def test_the_command_fails_if_something_goes_wrong_under_all_rules(capsys):
    assert main(["margin=2"]) == 1
    assert "the job can't end any more" in capsys.readouterr().out


def test_the_command_fails_if_a_search_does_not_find_what_it_should(monkeypatch, capsys):
    monkeypatch.setattr(runs, "DEEP", [runs.BROKEN[0]._replace(off=(), bounds=SMALLEST.but(epochs=1))])
    assert main(["--deep"]) == 1
    assert "UNEXPECTED, should be: the owner's memory is not" in capsys.readouterr().out


def test_bounds_are_told_and_taken(capsys):
    assert main(["epochs=1", "failures=1"]) == 0
    assert "off: nothing; bounds: epochs=1 failures=1" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--off", "nonsense"], ["nonsense=1"], ["epochs=many"]])
def test_nonsense_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
