"""Figures out of samples."""

from collections.abc import Sequence


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile: the smallest sample with at least `share` of all at or below it."""
    if not samples:
        return 0.0
    ordered = sorted(samples)
    rank = max(1, -(-len(ordered) * share // 1))
    return float(ordered[int(rank) - 1])
