"""The command line of the simulation."""

import argparse
import contextlib
import gc
import logging
import time
import traceback

import msgspec

from tests.simulation.scenario import PROFILES, has_tiny_bounds, profile_of
from tests.simulation.tiny import tiny_bounds
from tests.simulation.variants import VARIANTS, broken
from tests.simulation.violation import Violation
from tests.simulation.world import World

SHOWN = 60


class Result(msgspec.Struct):
    """What came of one seed."""

    seed: int
    profile: str
    digest: str
    events: int
    happened: int
    jobs: int
    runs: int
    broken: str = ""
    text: str = ""
    last: list[str] = []


def simulate(seed: int, profile: str = "") -> Result:
    """Run one seed. No cycle is collected meanwhile: what it reclaims, and when, is no part of a seed."""
    logging.disable(logging.CRITICAL)
    profile = profile or profile_of(seed)
    gc.collect()
    gc.disable()
    broken, text = "", ""
    tiny = has_tiny_bounds(seed)
    world = World(seed, PROFILES[profile], turn_decide_ms=-1 if tiny else 50)
    try:
        with tiny_bounds() if tiny else contextlib.nullcontext():
            world.run()
    except Violation as violation:
        broken, text = violation.invariant, str(violation)
        if violation.__cause__ is not None:
            world.history.add(0, "raised", "".join(traceback.format_exception(violation.__cause__)))
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
    return Result(
        seed,
        profile,
        world.history.digest(),
        world.history.count,
        world.timeline.happened,
        len(world.ledger.accepted),
        world.ledger.runs,
        broken,
        text,
        world.history.last(SHOWN),
    )


def first_red(name: str) -> Result | None:
    """Return the first seed that finds a broken variant."""
    variant = VARIANTS[name]
    with broken(name):
        for seed in range(variant.seeds):
            result = simulate(seed, variant.profile)
            if result.broken:
                return result
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--profile", default="", choices=["", *PROFILES])
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--variant", default="")
    args = parser.parse_args()
    if args.variants or args.variant:
        for name in VARIANTS if args.variants else [args.variant]:
            since = time.process_time()
            red = first_red(name)
            print(f"{name:40} {red.seed if red else 'GREEN'!s:6} {time.process_time() - since:5.1f}s {red.text[:110] if red else ''}", flush=True)
            if red and args.variant:
                print("\n".join(red.last))
        return 0
    seeds = [args.seed] if args.seed is not None else range(args.first, args.first + args.seeds)
    failed = 0
    began = time.process_time()
    for seed in seeds:
        since = time.process_time()
        result = simulate(seed, args.profile)
        took = time.process_time() - since
        print(f"seed {seed} {result.profile}: {result.jobs} jobs {result.runs} runs {result.happened} happened {took:.2f}s {result.text}")
        if result.broken:
            failed += 1
            if args.seed is not None:
                print("\n".join(result.last))
    print(f"{failed} failed, {time.process_time() - began:.1f}s")
    return 1 if failed else 0
