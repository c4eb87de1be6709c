"""Which inputs have records and yet bring none, found by looking at them again and again.

A client can go deaf to a single partition without a word: a pause that outlived an assignment, a resume that was lost
between two, a fetch that nobody took up after its broker came back. And a transaction that somebody left open hides
what lies behind it from everybody. Looks are counted, not seconds, so that a process which was suspended does not take
its own sleep for that of an input.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.kafka.stable_ends import End
from scheduler.kafka.told_offsets import Place

LOOKS: Final = 4
"""An input that was found standing still so many times in a row is stuck: for 30 s, at a look each 10 s."""


class Standing(msgspec.Struct):
    """An input that stood still at the last look, with more to read."""

    reached: int
    looks: int = 1


class Hidden(msgspec.Struct):
    """Records behind an open transaction, at the last look."""

    stable: int
    records: int
    looks: int = 1


class Stalls:
    """What the looks so far have found."""

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self._standing: dict[Place, Standing] = {}
        self._hidden: dict[Place, Hidden] = {}

    def look(self, reached: Mapping[Place, int], ends: Mapping[Place, End]) -> list[Place]:
        """Take a look: up to where each input was read, and where it ends. Return those that are stuck.

        An input of which only one is known counts as moving: it is paused, was lost, or has no leader.
        """
        places = reached.keys() & ends.keys()
        before, self._standing = self._standing, {}
        for place in places:
            if reached[place] < ends[place].stable:
                last = before.get(place)
                looks = last.looks + 1 if last and last.reached == reached[place] else 1
                self._standing[place] = Standing(reached[place], looks)
        self._look_behind({place: ends[place] for place in places})
        return sorted(place for place, standing in self._standing.items() if standing.looks % LOOKS == 0)

    def looks(self, place: Place) -> int:
        """Return how often in a row an input was found standing still."""
        standing = self._standing.get(place)
        return standing.looks if standing else 0

    def hidden(self) -> dict[Place, Hidden]:
        """Return what an open transaction has been hiding for at least two looks."""
        return {place: hidden for place, hidden in self._hidden.items() if hidden.looks > 1}

    def forget(self) -> None:
        """Forget everything: whoever reads has begun anew."""
        self._standing.clear()
        self._hidden.clear()

    def _look_behind(self, ends: Mapping[Place, End]) -> None:
        before, self._hidden = self._hidden, {}
        for place, end in ends.items():
            if end.stable < end.high:
                last = before.get(place)
                looks = last.looks + 1 if last and last.stable == end.stable else 1
                self._hidden[place] = Hidden(end.stable, end.high - end.stable, looks)
