"""Deliberately broken variants of the production code: how one is told, and how the code becomes it.

Each leaves out or bends one rule, and says why that is wrong; the simulation must find it. They stand by theme in
`broken_*.py`; the rules are those of docs/DESIGN.md, sections 5, 6, 7, 9 and 10.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

Patches = Iterator[Any]


class Variant(msgspec.Struct, frozen=True):
    """It must be found among `seeds` seeds of its profile; `first` is where to look first."""

    name: str
    why: str
    profile: str
    seeds: int
    first: int
    patches: Callable[[], Patches]

    def order(self) -> list[int]:
        """Return its seeds, with the one first that has found it before."""
        return sorted(range(self.seeds), key=lambda seed: seed != self.first)


VARIANTS: dict[str, Variant] = {}


def variant(
    why: str, profile: str = "turns", seeds: int = 4, *, first: int = 0
) -> Callable[[Callable[[], Patches]], None]:
    def enter(patches: Callable[[], Patches]) -> None:
        name = patches.__name__
        VARIANTS[name] = Variant(name, why, profile, seeds, first, patches)

    return enter


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """Let the production code be that variant."""
    with contextlib.ExitStack() as stack:
        for each in VARIANTS[name].patches():
            stack.enter_context(each)
        yield
