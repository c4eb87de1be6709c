"""The life of a dispatcher process: its end is told in its state directory, and it ends when it is stuck."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from scheduler.cli import exits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scheduler.observe.last_exit import Exit


@contextmanager
def told(
    state_dir: Path, on_last: Callable[[str], None], tick_s: float = 1.0
) -> Iterator[Callable[[], None]]:
    """Keep word of how the process ends; the block calls what it is given whenever it has got on.

    If it does not for `pulse.STUCK_TICKS` ticks, the process ends with its reason: whatever is wrong with it, another
    one can take its shards over. `on_last` is told how the last process here ended.
    """
    from scheduler.observe import last_exit
    from scheduler.observe.pulse import Pulse

    kept = last_exit.LastExit(state_dir)
    last = kept.begun()
    if last is not None:
        on_last(last.how)
        _say(last)

    def end_stuck(where: str) -> None:
        text = f"no turn has ended for minutes; the process ends. It stood here:\n{where}"
        kept.ended(last_exit.STUCK, text)
        click.echo(text, err=True)
        sys.stderr.flush()
        os._exit(exits.FAILED)

    pulse = Pulse()
    pulse.watch(end_stuck, tick_s)
    try:
        yield pulse.beat
    except BaseException as error:
        kept.ended(last_exit.FAILED, _reason(error))
        raise
    else:
        kept.ended(last_exit.STOPPED)
    finally:
        pulse.end()


def _say(last: Exit) -> None:
    from scheduler.observe.last_exit import STOPPED

    if last.how != STOPPED:
        click.echo(f"the last process here (pid {last.pid}, {last.at}) {last.how}: {last.reason}", err=True)


def _reason(error: BaseException) -> str:
    import traceback

    if isinstance(error, click.ClickException):
        return error.format_message()
    return "".join(traceback.format_exception(error))
