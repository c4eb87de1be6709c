"""One seed from beginning to end, and what came of it."""

import contextlib
import gc
import logging
import traceback
from collections.abc import Iterator

import msgspec

from tests.simulation.scenario import PROFILES, has_tiny_bounds, profile_of
from tests.simulation.tiny import tiny_bounds
from tests.simulation.variants import VARIANTS, broken
from tests.simulation.violation import Violation
from tests.simulation.world import World

SHOWN = 80  # of the last events


class Result(msgspec.Struct):
    """What came of one seed. `broken` names the invariant that did not hold, if one did not."""

    seed: int
    profile: str
    digest: str
    jobs: int
    runs: int
    forgotten: int
    did: dict[str, int]
    last: list[str]
    broken: str = ""
    text: str = ""


def simulate(seed: int, profile: str = "") -> Result:
    """Run one seed, under its own profile if none is given."""
    profile = profile or profile_of(seed)
    tiny = has_tiny_bounds(seed)
    with _quiet(), tiny_bounds() if tiny else contextlib.nullcontext():
        world = World(seed, PROFILES[profile], turn_decide_ms=-1 if tiny else 50)
        broke = _broke(world)
    return Result(
        seed,
        profile,
        world.history.digest(),
        len(world.ledger.accepted),
        world.ledger.runs,
        world.ledger.dropped,
        dict(world.did),
        world.history.last(SHOWN),
        broke.invariant if broke else "",
        str(broke or ""),
    )


def first_red(name: str) -> Result | None:
    """Return the first seed that finds a broken variant."""
    variant = VARIANTS[name]
    with broken(name):
        results = (simulate(seed, variant.profile) for seed in variant.order())
        return next((result for result in results if result.broken), None)


def _broke(world: World) -> Violation | None:
    try:
        world.run()
    except Violation as violation:
        if violation.__cause__ is not None:
            world.note("raised", "".join(traceback.format_exception(violation.__cause__)))
        return violation
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing, and collect no cycles: what that reclaims, and when, is no part of a seed."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        logging.disable(before)
