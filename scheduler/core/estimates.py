"""How long a run of a type will keep a slot busy, learned from runs that ended."""

from collections import OrderedDict
from typing import Final

from scheduler.core import bounds

FIRST_MAX_MS: Final = bounds.MINUTE_MS
TYPES_MAX: Final = 20_000  # types are free text of clients, so what is remembered of them is bounded
_UP: Final = 0.5
_DOWN: Final = 0.1


class Estimates:
    """Upper-biased means of busy time by (tenant, type), in milliseconds."""

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self._means: OrderedDict[tuple[str, str], float] = OrderedDict()

    def get(self, tenant: str, job_type: str, timeout_ms: int) -> float:
        """Return the estimate; before the first run it is the time-out, at most `FIRST_MAX_MS`."""
        mean = self._means.get((tenant, job_type))
        return float(min(timeout_ms, FIRST_MAX_MS)) if mean is None else mean

    def learn(self, tenant: str, job_type: str, busy_ms: float) -> None:
        """Take one ended run into the mean: quickly upward, slowly downward."""
        key = (tenant, job_type)
        mean = self._means.get(key)
        if mean is None:
            if len(self._means) >= TYPES_MAX:
                self._means.popitem(last=False)
            self._means[key] = busy_ms
            return
        self._means[key] = mean + (busy_ms - mean) * (_UP if busy_ms > mean else _DOWN)

    def forget(self) -> None:
        """Forget all."""
        self._means.clear()
