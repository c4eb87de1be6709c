"""How large a world a search covers: periods in ticks, lengths of queues, how often each fault may happen."""

from typing import NamedTuple, Self

from tests.model.state import Faults


class Bounds(NamedTuple):
    """The size of one search."""

    lease: int = 4  # L
    first: int = 2  # F
    margin: int = 1  # M
    epochs: int = 2  # this many grants
    log: int = 2  # reports that somebody has still to read
    inbox: int = 1
    workers: int = 1
    decisions: int = 0  # of one turn before it commits; at 0 deciding and committing are one step
    old_owner_acts: bool = (
        False  # after a take-over, until it learns of it; else only what it sent still arrives
    )
    drift: int = 0  # worker clocks lose a tick after every so many; at 0 none
    can: Faults = Faults()

    def but(self, **changes: int) -> Self:
        """Return these bounds with changes, faults among them by their names."""
        faults = {name: changes.pop(name) for name in Faults._fields if name in changes}
        return self._replace(**changes, can=self.can._replace(**faults))

    def __str__(self) -> str:
        """Return what differs from the smallest bounds."""
        least = Bounds()
        told = [
            f"{name}={value}"
            for name, value in self._asdict().items()
            if name != "can" and value != getattr(least, name)
        ]
        told += [f"{name}={times}" for name, times in self.can._asdict().items() if times]
        return " ".join(told) or "no fault"


SMALLEST = Bounds()
NAMES = tuple(name for name in (*Bounds._fields, *Faults._fields) if name != "can")


def bound(text: str) -> tuple[str, int]:
    """Parse one bound, such as `epochs=3`."""
    name, _, number = text.partition("=")
    if name not in NAMES or not number.isdigit():
        raise ValueError(f"{text!r} is not one of {', '.join(NAMES)} with a number, such as epochs=3")
    return name, int(number)


def bounded(text: str) -> Bounds:
    """Return the smallest bounds with changes, such as `epochs=3 cancels=1`."""
    return SMALLEST.but(**dict(map(bound, text.split())))
