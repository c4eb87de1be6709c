"""The shards that this process holds: they come and go with the group's assignments."""

from scheduler.core.match import Matcher
from scheduler.core.timing import Timing
from scheduler.dispatcher.ports import Polled
from scheduler.dispatcher.reading import Reading
from scheduler.dispatcher.restoring import Restorer
from scheduler.dispatcher.retired import Retired
from scheduler.dispatcher.seat import Seat
from scheduler.dispatcher.signals import Signals
from scheduler.dispatcher.suspicion import Suspicion


class Seats:
    """All seats, by shard."""

    def __init__(
        self,
        timing: Timing,
        matcher: Matcher,
        reading: Reading,
        suspicion: Suspicion,
        restorer: Restorer,
        retired: Retired,
        signals: Signals,
    ) -> None:
        """Begin without shards; whatever else knows of a lost one is told to forget it."""
        self._timing = timing
        self._matcher = matcher
        self._reading = reading
        self._suspicion = suspicion
        self._restorer = restorer
        self._retired = retired
        self._signals = signals
        self._last_echoes: dict[int, int] = {}  # of shards held before
        self.held: dict[int, Seat] = {}

    def follow(self, polled: Polled) -> None:
        """Give up and take what a poll said. Nothing is decided then, so a lost shard takes nothing down with it."""
        for number in polled.lost:
            self.lose(number)
        for number in polled.gained:
            self.lose(number)
            self.held[number] = Seat(number, self._timing, self._last_echoes.get(number, 0))
        self._retired.close_one(self.held)
        if polled.lost or polled.gained:
            self._signals.rebalanced(sorted(self.held))

    def lose(self, number: int) -> None:
        """Give up a shard, if it is held: nothing that was decided or read for it remains."""
        seat = self.held.pop(number, None)
        if seat is None:
            return
        self._restorer.stop(number)
        self._matcher.unload(number)
        self._reading.forget(number)
        self._suspicion.forget(number)
        seat.leases.clear()
        self._last_echoes[number] = seat.leases.last_echo
        if seat.store is not None:
            self._retired.add(number, seat.store)

    def lose_all(self) -> None:
        """Give up every shard, and close all stores."""
        for number in list(self.held):
            self.lose(number)
        self._retired.close_all()
