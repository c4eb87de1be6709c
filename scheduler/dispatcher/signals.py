"""What the dispatcher tells about itself; `observe` turns it into metrics."""

from collections import Counter
from typing import Protocol


class Signals(Protocol):
    """Receives what happened, after it is true."""

    def counted(self, counts: Counter[tuple[str, ...]]) -> None:
        """Take the core's counts of one committed turn and shard."""

    def committed(self, records: int, commit_ms: int) -> None:
        """Take a committed turn: how many records it took, how long its commit and stores took."""

    def failed(self, how: str) -> None:
        """Take a failed turn: abort, fenced or unknown."""

    def clock_differs(self, ms: int) -> None:
        """Take how far this machine's clock is ahead of the brokers', in milliseconds."""

    def timers_late(self, ms: int) -> None:
        """Take for how long the first timer of the shards held here has been due, in milliseconds."""

    def topics_changed(self, topics: int) -> None:
        """Take how many of our topics have another partition count than at start."""

    def rebalanced(self, shards: list[int]) -> None:
        """Take the shards now held."""

    def leasing(self, shards: int) -> None:
        """Take how many of the shards held are taken over, and lease."""

    def standby_lags(self, records: dict[int, int]) -> None:
        """Take how far each standby is behind its changelog, by shard: all that there are."""
