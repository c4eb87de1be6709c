"""How many runs one call of a test may begin."""

from collections import Counter
from typing import Final

from scheduler.testing.errors import NeverIdle

MOST_RUNS: Final = 10_000


class Allowance:
    """Bounds one `run` or `advance`, which would go on for ever with a job that comes back without end."""

    def __init__(self, most_runs: int = MOST_RUNS) -> None:
        """Allow so many runs."""
        self._most = most_runs
        self._types: Counter[str] = Counter()

    def spend(self, job_type: str) -> None:
        """Count one run. Raises `NeverIdle` beyond the bound."""
        if self._types.total() >= self._most:
            often = ", ".join(f"{count} of {name}" for name, count in self._types.most_common(3))
            raise NeverIdle(
                f"not idle after {self._most} runs: {often}. Does a job submit or snooze itself without end? "
                "If so many are wanted, give most_runs="
            )
        self._types[job_type] += 1
