"""Everything at once, from a seed: nothing is lost, nothing runs twice at a time, everything ends once."""

import os

import pytest

from tests.dispatcher.simulation import Simulation

FIRST = int(os.environ.get("SIMULATION_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("SIMULATION_SEEDS", "12"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_a_random_history_keeps_every_promise(seed):
    Simulation(seed).run(steps=400)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_leases_of_long_runs_never_overlap(seed):
    Simulation(seed, long_runs=True).run(steps=300)
