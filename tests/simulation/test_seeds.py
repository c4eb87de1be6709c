"""Whole worlds from seeds: some that never change, and some that nobody has seen before."""

import os
import subprocess
import sys

import pytest

from tests.simulation.golden import GOLDEN
from tests.simulation.scenario import SHARES, has_tiny_bounds
from tests.simulation.seeds import simulate
from tests.simulation.variants import broken

FIXED = range(len(SHARES))  # each profile
NEW = [int.from_bytes(os.urandom(4), "big") for _ in range(6)]
REPEATED = 3


@pytest.mark.parametrize("seed", FIXED)
def test_every_promise_is_kept_whatever_goes_wrong(seed):
    passes(seed)


@pytest.mark.parametrize("number", range(len(NEW)))
def test_every_promise_is_kept_in_worlds_never_seen_before(number):
    passes(NEW[number])  # its number is in the failure


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.profile} {case.seed}")
def test_what_once_went_wrong_does_not_again(case):
    passes(case.seed, case.profile)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.profile} {case.seed}")
def test_a_golden_seed_still_reaches_its_bug(case):
    with broken(case.variant):
        assert simulate(case.seed, case.profile).broken


def test_some_worlds_have_tiny_bounds():
    assert {has_tiny_bounds(seed) for seed in range(2 * len(SHARES))} == {False, True}


def test_a_seed_is_the_same_history_in_every_process():
    told = [told_by(hash_seed) for hash_seed in ("1", "2")]
    assert told[0] == told[1] != ""


def passes(seed: int, profile: str = "") -> None:
    result = simulate(seed, profile)
    again = f"scripts/simulate --seed {seed}" + (f" --profile '{profile}'" if profile else "")
    last = "\n".join(result.last)
    assert not result.broken, f"{result.text}\n\n{last}\n\nagain: {again}"
    assert result.runs, "a world in which nothing runs proves nothing"


def told_by(hash_seed: str) -> str:
    """Return the digests of some seeds as another process has them."""
    script = (
        "from tests.simulation.seeds import simulate\n"
        f"print([simulate(seed).digest for seed in range({REPEATED})])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
