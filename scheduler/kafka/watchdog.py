"""The watchdog over what this process reads: takes stuck inputs up anew, and gives a deaf client up."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from scheduler.dispatcher.ports import Fenced
from scheduler.kafka.consumers import Reader
from scheduler.kafka.names import Names
from scheduler.kafka.stable_ends import StableEnds
from scheduler.kafka.stalls import LOOKS, Stalls
from scheduler.kafka.told_offsets import Place
from scheduler.kafka.troubles import LOG

LOOK_EVERY_S: Final = 10.0
TRIES: Final = 3
"""How often an input is taken up anew before all consumers are."""

_ANSWERED_EVERY_S: Final = 0.2


class Told(Protocol):
    """Hears what the watchdog found. Topics are without prefix."""

    def taken_up(self, topic: str) -> None:
        """Take that a stuck input of `topic` was taken up anew."""

    def hidden(self, records: Mapping[str, int]) -> None:
        """Take how many records of each topic lie behind transactions that were left open."""


class Silent:
    """Tells nobody."""

    def taken_up(self, topic: str) -> None:
        """Ignore it."""

    def hidden(self, records: Mapping[str, int]) -> None:
        """Ignore it."""


class Watchdog:
    """Looks at the inputs every `LOOK_EVERY_S`, beside the turns: it never waits for a broker."""

    def __init__(
        self, ends: StableEnds, names: Names, told: Told, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        """Begin; the first look comes one period from now."""
        self._ends = ends
        self._names = names
        self._told = told
        self._look_every_s = look_every_s
        self._next_s = time.monotonic() + look_every_s
        self._stalls = Stalls()
        self._warned: set[Place] = set()

    def serve(self, readers: Sequence[Reader]) -> None:
        """Do what is due."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _ANSWERED_EVERY_S
        if not self._ends.asked:
            self._ends.ask([place for reader in readers for place in reader.reached()])
            return
        ends = self._ends.answer()
        if ends is None:
            return
        self._next_s = now_s + self._look_every_s
        reached: dict[Place, int] = {}
        reader_of: dict[Place, Reader] = {}
        for reader in readers:
            here = reader.reached()
            reached |= here
            reader_of |= dict.fromkeys(here, reader)
        for place in self._stalls.look(reached, ends):
            self._take_up(reader_of[place], place)
        self._tell_hidden()

    def forget(self) -> None:
        """Forget what was found: all consumers are new."""
        self._stalls.forget()

    def _take_up(self, reader: Reader, place: Place) -> None:
        topic, shard = place
        looks = self._stalls.looks(place)
        if looks > TRIES * LOOKS:
            reader.failure = Fenced(f"{topic}/{shard} brings nothing, though it was taken up {TRIES} times")
            return
        LOG.error("%s/%d has unread records and brings none for %d looks: taken up anew", topic, shard, looks)
        self._told.taken_up(self._names.bare(topic))
        reader.take_up(place)

    def _tell_hidden(self) -> None:
        hidden = self._stalls.hidden()
        records: Counter[str] = Counter()
        for place, found in hidden.items():
            records[self._names.bare(place[0])] += found.records
            if place not in self._warned:
                LOG.error(
                    "%s/%d: %d records from offset %d on wait for a transaction that somebody left open; its "
                    "time-out ends it, or 'kafka-transactions.sh find-hanging' finds it",
                    *place,
                    found.records,
                    found.stable,
                )
        self._warned = set(hidden)
        self._told.hidden(records)
