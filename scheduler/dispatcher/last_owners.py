"""What the group says of those who had the shards before: are they still members, and how far did they read.

Asked once for all shards that came together, since each question holds the turn up.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeVar

from scheduler.core.inputs import TOPIC_OF, Input, Meta
from scheduler.dispatcher.care import handed_over
from scheduler.dispatcher.ports import Log, LogError
from scheduler.dispatcher.signals import Signals

_log = logging.getLogger(__name__)

T = TypeVar("T")


class LastOwners:
    """The answers for the shards that are being taken over."""

    def __init__(self, log: Log, signals: Signals) -> None:
        """Ask `log`; tell `signals` of positions that can't be."""
        self._log = log
        self._signals = signals
        self._members: frozenset[str] | None = None
        self._offsets: dict[tuple[int, Input], int] | None = None

    def forget(self) -> None:
        """Say that more shards have come: what was asked before says nothing of their owners."""
        self._members = self._offsets = None

    def ask(self, shards: Collection[int]) -> None:
        """Ask what is not known yet, for all shards being taken over. Without an answer, ask again next time."""
        if self._members is None:
            self._members = _answer(self._log.members)
        if self._offsets is None:
            self._offsets = _answer(lambda: self._log.group_offsets(shards))

    def as_left(self, meta: Meta) -> Meta:
        """Return a shard's meta as its last owner left it: one that is still a member did not die of it.

        As long as nobody answers, all of them count as dead.
        """
        return handed_over(meta) if meta.member in (self._members or ()) else meta

    def compare(self, number: int, meta: Meta) -> None:
        """Tell of positions in `meta` that are behind the group's. `meta` is right all the same: it goes with the state.

        A turn commits both at once, so the changelog has lost its end, or somebody has moved the group's offset.
        Those ahead are usual: the group is told of most inputs every few seconds only.
        """
        for source, topic in TOPIC_OF.items():
            told = (self._offsets or {}).get((number, source), -1)
            position = meta.positions.get(topic, told)
            if told > position:
                _log.error(
                    "%s/%d: the group stands at %d, the shard's state at %d, which counts. Either the changelog has lost "
                    "its end, and jobs run again, or somebody has moved the group's offset",
                    topic,
                    number,
                    told,
                    position,
                )
                self._signals.counted(Counter({("positions_behind",): 1}))


def _answer(question: Callable[[], T]) -> T | None:
    try:
        return question()
    except LogError as error:
        _log.warning("no answer about the shards' last owners: %s", error)
        return None
