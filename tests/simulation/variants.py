"""All deliberately broken variants."""

from tests.simulation import (
    broken_forgetting,
    broken_jobs,
    broken_leases,
    broken_standbys,
    broken_turns,
    broken_worker,
)
from tests.simulation.breaking import VARIANTS, broken

__all__ = ["VARIANTS", "broken"]

_THEMES = (
    broken_turns,
    broken_leases,
    broken_jobs,
    broken_forgetting,
    broken_standbys,
    broken_worker,
)  # they enter themselves
