"""Stores of shards that are not held any more, still open: each is closed in a turn of its own.

Closing one flushes it, which takes ten milliseconds and more; half of 64 at once would hold a turn up for long. Nobody
writes them meanwhile. Whoever wants such a store again, for a take-over or as a standby, gets it as it is.
"""

from collections.abc import Container

from scheduler.dispatcher.ports import Store


class Retired:
    """Open stores that nobody uses, by shard."""

    def __init__(self) -> None:
        """Begin without any."""
        self._stores: dict[int, Store] = {}

    def add(self, number: int, store: Store) -> None:
        """Leave a store here."""
        assert number not in self._stores, f"shard {number} has two stores"
        self._stores[number] = store

    def take(self, number: int) -> Store | None:
        """Return a shard's store, if it is here: it is the caller's then."""
        return self._stores.pop(number, None)

    def close_one(self, wanted: Container[int] = ()) -> None:
        """Close the one that has been here for longest; not those of `wanted` shards, which somebody is about to take."""
        number = next((number for number in self._stores if number not in wanted), None)
        if number is not None:
            self._stores.pop(number).close()

    def close_all(self) -> None:
        """Close all."""
        while self._stores:
            self.close_one()
