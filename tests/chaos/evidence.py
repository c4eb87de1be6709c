"""What is known of a run from outside of the product: receipts, what handlers wrote down, how jobs ended, what was frozen."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

ENDS: Final = frozenset({"succeeded", "failed", "cancelled", "expired"})


class Job(msgspec.Struct, frozen=True):
    """What was submitted; `run_at_ms` is 0 if it may start at once."""

    type: str
    run_at_ms: int = 0
    accepted: bool = True


class Run(msgspec.Struct, frozen=True):
    """One run, as its handler wrote it down; `end_boot_ms` is 0 if it was killed. `beside` held the job's claim then."""

    job: str
    epoch: int
    attempt: int
    pid: int
    boot_ms: int
    wall_ms: int
    beside: int = 0
    end_boot_ms: int = 0
    outcome: str = ""


class End(msgspec.Struct, frozen=True):
    """How `lifecycle` says that a job ended."""

    event: str
    reason: str
    epoch: int
    at_ms: int = 0


class Freeze(msgspec.Struct, frozen=True):
    """A process that was frozen together with the guard that should have killed it."""

    pid: int
    from_boot_ms: int
    to_boot_ms: int


class Evidence(msgspec.Struct, frozen=True):
    """All of it.

    `lost` is how many leases of a job its state says were lost, undelivered or handed back. `dead` is how many dead
    letters a job has, and under no name how many records were quarantined.
    """

    jobs: Mapping[str, Job]
    runs: Mapping[str, list[Run]]  # by job, in the order of epochs
    ends: Mapping[str, list[End]]
    lost: Mapping[str, int]
    dead: Mapping[str, int] = {}
    frozen: tuple[Freeze, ...] = ()


def jobs_of(lines: Iterable[dict[str, Any]]) -> dict[str, Job]:
    """Return what the load's lines say."""
    wanted: dict[str, dict[str, Any]] = {}
    receipts: set[str] = set()
    for line in lines:
        if line["what"] == "wanted":
            wanted[line["job"]] = line
        else:
            receipts.add(line["job"])
    return {job: Job(line["type"], line["run_at_ms"], job in receipts) for job, line in wanted.items()}


def runs_of(lines: Iterable[dict[str, Any]]) -> dict[str, list[Run]]:
    """Return what the handlers' lines say. Starts and ends belong together by job, epoch and process."""
    starts: list[dict[str, Any]] = []
    ends: dict[tuple[str, int, int], dict[str, Any]] = {}
    for line in lines:
        if line["what"] == "start":
            starts.append(line)
        else:
            ends[_run(line)] = line
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    for line in sorted(starts, key=lambda line: (line["epoch"], line["boot_ms"])):
        end = ends.get(_run(line), {})
        runs[line["job"]].append(
            Run(
                *(line[name] for name in ("job", "epoch", "attempt", "pid", "boot_ms", "wall_ms", "beside")),
                end.get("boot_ms", 0),
                end.get("outcome", ""),
            )
        )
    return dict(runs)


def _run(line: dict[str, Any]) -> tuple[str, int, int]:
    return line["job"], line["epoch"], line["pid"]
