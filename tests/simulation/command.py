"""The command line of the simulation."""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tests.simulation.scenario import PROFILES
from tests.simulation.seeds import Result, first_red, simulate
from tests.simulation.variants import VARIANTS

A, B = TypeVar("A"), TypeVar("B")


def main() -> int:
    args = _parser().parse_args()
    if args.variants:
        return _show_variants(args.jobs)
    if args.seed is not None:
        return _replay(args.seed, args.profile)
    return _run(range(args.first, args.first + args.seeds), args.profile, args.jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Simulate whole worlds from seeds.")
    parser.add_argument("--seeds", type=int, default=200, help="how many (200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="replay this one, and show its last events")
    parser.add_argument("--profile", default="", choices=["", *PROFILES], help="instead of the seed's own")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (1)")
    parser.add_argument("--variants", action="store_true", help="show which seed finds each broken variant")
    return parser


def _replay(seed: int, profile: str) -> int:
    result = simulate(seed, profile)
    print("\n".join(result.last))
    print(_line(result), f"digest {result.digest}")
    return 1 if result.broken else 0


def _run(seeds: Iterable[int], profile: str, jobs: int) -> int:
    began, count, failed = time.monotonic(), 0, 0
    for result in _each(_Simulate(profile), seeds, jobs):
        count += 1
        failed += bool(result.broken)
        print(_line(result), flush=True)
    print(f"{count} seeds, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _show_variants(jobs: int) -> int:
    green = 0
    for name, red in zip(VARIANTS, _each(first_red, VARIANTS, jobs), strict=True):
        green += red is None
        where = f"{red.profile} {red.seed}" if red else "GREEN"
        print(f"{name:40} {where:14} {red.broken if red else ''}", flush=True)
    print(f"{len(VARIANTS)} variants, {green} not found")
    return 1 if green else 0


def _line(result: Result) -> str:
    told = f"seed {result.seed:<6} {result.profile:<12} {result.jobs:4} jobs {result.runs:4} runs {result.forgotten:4} forgotten"
    return f"{told}  {result.text or 'ok'}"


class _Simulate:
    """`simulate` under one profile, as processes can be told."""

    def __init__(self, profile: str) -> None:
        self._profile = profile

    def __call__(self, seed: int) -> Result:
        return simulate(seed, self._profile)


def _each(work: Callable[[A], B], on: Iterable[A], jobs: int) -> Iterator[B]:
    if jobs == 1:
        yield from map(work, on)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(work, on)
