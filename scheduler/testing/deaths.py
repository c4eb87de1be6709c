"""Deaths of workers that a test has asked for."""

from collections import deque
from typing import Final

_AT_START: Final = 0


class Deaths:
    """Each strikes once, in the order in which they were planned."""

    def __init__(self) -> None:
        """Begin without any."""
        self._planned: deque[int] = deque()

    def plan(self, after_checkpoint: int | None) -> None:
        """Let the next run die after so many checkpoints of its own, or at its start. `ValueError` below 1."""
        if after_checkpoint is not None and after_checkpoint < 1:
            raise ValueError(f"after_checkpoint={after_checkpoint}: a run's first checkpoint is number 1")
        self._planned.append(_AT_START if after_checkpoint is None else after_checkpoint)

    def strikes(self, checkpoints: int = _AT_START) -> bool:
        """Say whether the worker of a run dies now that so many of its checkpoints are durable."""
        if not self._planned or self._planned[0] != checkpoints:
            return False
        self._planned.popleft()
        return True
