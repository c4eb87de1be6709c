"""What a person sees of the demo: a live panel on a terminal, plain lines elsewhere, a table at the end."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from scheduler.bench.judge import Verdict

_LINE_EVERY_S = 2.0


class Progress(msgspec.Struct, frozen=True):
    """How far it is."""

    submitted: int
    succeeded: int
    dead_lettered: int
    quarantined: int
    left: int
    killed: tuple[str, ...]

    def line(self) -> str:
        """Return it as one line."""
        killed = f"   killed -9: {', '.join(self.killed)}" if self.killed else ""
        return (
            f"submitted {self.submitted:,}   succeeded {self.succeeded:,}   dead-lettered {self.dead_lettered:,}   "
            f"quarantined {self.quarantined:,}   to go {self.left:,}{killed}"
        )


@contextmanager
def view() -> Iterator[Callable[[Progress], None]]:
    """Give what shows progress, on standard error so that `--json` stays clean."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines()
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda progress: live.update(_panel(progress))


def table(verdict: Verdict) -> None:
    """Print the table at the end, and a sentence. It fits into 80 columns."""
    rows = Table(show_header=False, box=None, pad_edge=False)
    rows.add_column(min_width=20)
    rows.add_column(min_width=9, justify="right")
    rows.add_column()
    reasons = ", ".join(
        f"{count:,} {_WORDS.get(reason, reason)}" for reason, count in verdict.dead_lettered_by_reason.items()
    )
    for name, value, note in (
        ("submitted", f"{verdict.submitted:,}", ""),
        ("succeeded", f"{verdict.succeeded:,}", "with the follow-ups that orders emitted"),
        ("dead-lettered", f"{verdict.dead_lettered:,}", reasons),
        ("retried", f"{verdict.retried:,}", f"jobs that ran again, {verdict.second_runs:,} runs"),
        ("quarantined", f"{verdict.quarantined:,}", "broken records of the third-party producer"),
        ("lost", *_zero(verdict.lost)),
        ("completed twice", *_zero(verdict.completed_twice)),
        ("started early", *_zero(verdict.started_early)),
        ("submit to start, p50", f"{verdict.submit_to_start_p50_ms:,.0f} ms", ""),
        (
            "submit to start, p99",
            f"{verdict.submit_to_start_p99_ms:,.0f} ms",
            "two processes were killed meanwhile",
        ),
        ("jobs per second", f"{verdict.jobs_per_s:,.0f}", "as submitted: this is no bench"),
    ):
        rows.add_row(name, value, note)
    console = Console(file=sys.stdout)
    console.print(rows)
    console.print(f"\n{_conclusion(verdict)}", highlight=False)


_WORDS: Final = {
    "attempts_exhausted": "out of attempts",
    "failed": "given up",
    "lost": "poisonous",  # it killed each process; `lost` would stand right above the row that must be zero
}


def _conclusion(verdict: Verdict) -> str:
    if verdict.clean:
        return "Nothing was lost, nothing was completed twice, nothing started early."
    return "This must not happen: see the rows that must be zero."


def _zero(count: int) -> tuple[str, str]:
    return f"{count:,}", "" if count == 0 else "MUST BE ZERO"


def _panel(progress: Progress) -> Table:
    panel = Table(show_header=False, box=None)
    for name, value in (
        ("submitted", f"{progress.submitted:,}"),
        ("succeeded", f"{progress.succeeded:,}"),
        ("dead-lettered", f"{progress.dead_lettered:,}"),
        ("quarantined", f"{progress.quarantined:,}"),
        ("to go", f"{progress.left:,}"),
        ("killed -9", ", ".join(progress.killed) or "nobody yet"),
    ):
        panel.add_row(name, value)
    return panel


def _plain_lines() -> Callable[[Progress], None]:
    last = 0.0

    def show(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_EVERY_S:
            last = time.monotonic()
            click.echo(progress.line(), err=True)

    return show
