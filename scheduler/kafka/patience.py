"""Calls into the client that may never return, whatever time-out they were given."""

from collections.abc import Callable
from threading import Thread


class Stuck(Exception):
    """A call has not returned in time. It may go on for ever, in a thread that nobody waits for."""


def within(seconds: float, call: Callable[[], None]) -> None:
    """Make a call, and wait for it no longer than that; raises what the call raises, or `Stuck`.

    What it was made on is of no use after `Stuck`: the call still has it in hand.
    """
    raised: list[BaseException] = []

    def make() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            raised.append(error)

    thread = Thread(target=make, daemon=True)  # does not keep the process from ending
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Stuck
    if raised:
        raise raised[0]
