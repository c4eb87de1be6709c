"""What a run shows: progress while it lasts, a table at its end, or one JSON object."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.chaos.judge import FAULTS, Verdict


class Report(msgspec.Struct, frozen=True):
    """The verdict, and what it was proved against."""

    seed: int
    minutes: float
    brokers: int
    verdict: Verdict
    kills: int
    stops: int
    other_faults: dict[str, int]
    faults: dict[str, int]  # by name
    failed_faults: list[str]  # faults that could not be done as meant
    ended_by_themselves: dict[str, list[str]]
    quiet_after_s: float  # from the last fault to the last end
    left_out: list[str]
    unfinished: list[str]  # the first of them, with what is known
    ended_twice: list[str]  # likewise
    told_twice: int  # the same end, by the same record once more

    @property
    def clean(self) -> bool:
        return self.verdict.clean


def as_json(report: Report) -> str:
    """Return one object: the verdict's counts beside the rest."""
    fields: dict[str, Any] = msgspec.to_builtins(report)
    return json.dumps({**fields.pop("verdict"), **fields, "clean": report.clean})


def as_table(report: Report) -> str:
    """Return the table for people."""
    return "\n".join(_rows(report))


def _rows(report: Report) -> Iterator[str]:
    verdict = report.verdict
    yield _row("seed, minutes, brokers", f"{report.seed}, {report.minutes:g}, {report.brokers}")
    yield _row("kills / stops", f"{report.kills} / {report.stops}")
    yield _row("other faults", _counts(report.other_faults))
    yield _row("accepted", verdict.accepted)
    yield _row("succeeded", verdict.succeeded)
    yield _row("failed", _counts(verdict.failed))
    yield _row("second runs", f"{verdict.second_runs}, each after a lost lease but {verdict.unexplained}")
    yield _row("overlaps by thawed runs", verdict.thawed_overlaps)
    yield _row("quiet after", f"{report.quiet_after_s:.0f} s")
    ended = {name: len(how) for name, how in report.ended_by_themselves.items()}
    yield _row("ended by themselves", _counts(ended))
    for reason in report.left_out:
        yield _row("left out", reason)
    for job in report.unfinished:
        yield _row("unfinished", job)
    for job in report.ended_twice:
        yield _row("ended twice", job)
    yield _row("told twice", report.told_twice)
    for name in FAULTS:
        yield _row(name.replace("_", " "), getattr(verdict, name))
    yield "clean" if report.clean else "NOT CLEAN"


def _row(name: str, value: object) -> str:
    return f"{name:<26}{value}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
