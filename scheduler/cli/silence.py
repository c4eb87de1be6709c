"""A word about a broker that does not answer while a command goes on trying: nobody should watch a silent terminal."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from scheduler.cli.connection import Connection

_AFTER_S = 1.5
_LOOK_S = 2.0


@contextmanager
def silence_told(connection: Connection, tries_s: float) -> Iterator[Callable[[], None]]:
    """Say within a few seconds that no broker answers and for how long the command tries, if that is so.

    Gives what ends the watch early, to be called when an answer has come.
    """

    def look() -> None:
        if not connection.answers(_LOOK_S):
            click.echo(
                f"no broker answers at {connection.bootstrap} yet; trying for {tries_s:.0f} s", err=True
            )

    watch = threading.Timer(_AFTER_S, look)
    watch.start()
    try:
        yield watch.cancel
    finally:
        watch.cancel()
        watch.join()  # a look that has begun holds a client, which must not outlive the interpreter
