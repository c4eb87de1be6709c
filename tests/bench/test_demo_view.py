"""The end of the demo as a person sees it."""

import msgspec
import pytest

from scheduler.bench.demo_view import table
from scheduler.bench.judge import Verdict

GOOD = Verdict(
    submitted=3_060,
    succeeded=3_119,
    dead_lettered=61,
    dead_lettered_by_reason={"attempts_exhausted": 30, "failed": 30, "lost": 1},
    retried=181,
    second_runs=362,
    quarantined=6,
    lost=0,
    completed_twice=0,
    started_early=0,
    submit_to_start_p50_ms=5_198.0,
    submit_to_start_p99_ms=121_719.0,
    jobs_per_s=80.7,
)


def shown(verdict, capsys):
    table(verdict)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_table_fits_a_terminal_and_ends_with_a_sentence(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(GOOD, capsys)
    assert len(lines) == 11 + 2  # no row is wrapped
    assert [line for line in lines if line.endswith(" 0")] == [
        "lost                           0",
        "completed twice                0",
        "started early                  0",
    ]
    assert lines[-1] == "Nothing was lost, nothing was completed twice, nothing started early."


@pytest.mark.parametrize("field", ["lost", "completed_twice", "started_early"])
def test_what_must_be_zero_and_is_not_stands_out(capsys, field):
    lines = shown(msgspec.structs.replace(GOOD, **{field: 2}), capsys)
    assert [line.split() for line in lines if "MUST BE ZERO" in line] == [
        [*field.split("_"), "2", "MUST", "BE", "ZERO"]
    ]
    assert lines[-1] == "This must not happen: see the rows that must be zero."
