"""Which fault comes when: a function of the seed. What it then meets is not."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from tests.chaos.catalogue import Fault

EVERY_S = 1.9
"""A fault comes this often on average."""


class Planned(NamedTuple):
    """A fault, when it begins, and the seed of its own choices."""

    at_s: float
    fault: Fault
    seed: int


def plan(seed: int, seconds: float, faults: Sequence[Fault]) -> list[Planned]:
    """Return the faults of a run of `seconds`: each kind at least once, if there is room, the rest by their shares."""
    chance = random.Random(seed)
    count = round(seconds / EVERY_S)
    each = chance.sample(faults, min(count, len(faults)))
    more = chance.choices(faults, [fault.share for fault in faults], k=count - len(each))
    chosen = [*each, *more]
    chance.shuffle(chosen)
    times = sorted(chance.uniform(0, seconds) for _ in chosen)
    return [Planned(at_s, fault, chance.getrandbits(32)) for at_s, fault in zip(times, chosen, strict=True)]
