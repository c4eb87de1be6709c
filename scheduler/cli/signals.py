"""What SIGINT, SIGTERM and SIGHUP do while a command runs in the foreground."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """They raise KeyboardInterrupt, so that what was started is ended on the way out."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with _handled_by(_NUMBERS, interrupt):
        yield


@contextmanager
def signals_call(asked_to_stop: Callable[[], None]) -> Iterator[None]:
    """They call ``asked_to_stop``, in the main thread between any two of its steps: it must be safe there."""
    with _handled_by(_NUMBERS, asked_to_stop):
        yield


@contextmanager
def _handled_by(numbers: tuple[signal.Signals, ...], handler: Callable[[], None]) -> Iterator[None]:
    # What `nohup` has ignored stays ignored; the others are always heeded, though shells start background jobs
    # with SIGINT ignored.
    heeded = [
        number
        for number in numbers
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]
    old = [signal.signal(number, lambda *_: handler()) for number in heeded]
    try:
        yield
    finally:
        for number, former in zip(heeded, old, strict=True):
            signal.signal(number, former)
