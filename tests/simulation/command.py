"""The command line of the simulation."""

import argparse
import gc
import logging
import time
import traceback

import msgspec

from tests.simulation.scenario import PROFILES, profile_of
from tests.simulation.violation import Violation
from tests.simulation.world import new_world

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
    world = new_world(seed, profile)
    try:
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--profile", default="", choices=["", *PROFILES])
    args = parser.parse_args()
    seeds = [args.seed] if args.seed is not None else range(args.first, args.first + args.seeds)
    failed = 0
    began = time.monotonic()
    for seed in seeds:
        since = time.monotonic()
        result = simulate(seed, args.profile)
        took = time.monotonic() - since
        print(f"seed {seed} {result.profile}: {result.jobs} jobs {result.runs} runs {result.happened} happened {took:.2f}s {result.text}")
        if result.broken:
            failed += 1
            if args.seed is not None:
                print("\n".join(result.last))
    print(f"{failed} failed, {time.monotonic() - began:.1f}s")
    return 1 if failed else 0
