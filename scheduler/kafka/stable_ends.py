"""Where partitions end, with and without what open transactions hide, asked for aside: nobody waits for the answer."""

from collections.abc import Collection
from concurrent.futures import Future, wait
from typing import Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not re-exported by the stub's rules
    AdminClient,
    ListOffsetsResultInfo,
)

from scheduler.kafka.told_offsets import Place, ask_ends, offset_in

_LEVELS: Final = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)


class End(NamedTuple):
    """The end of a partition. From `stable` to `high` lies what an open transaction hides."""

    stable: int
    high: int


class StableEnds:
    """One question at a time."""

    def __init__(self, client: AdminClient) -> None:
        """Ask through `client`."""
        self._client = client
        self._asked: list[dict[Place, Future[ListOffsetsResultInfo]]] = []

    @property
    def asked(self) -> bool:
        """Whether a question is under way."""
        return bool(self._asked)

    def ask(self, places: Collection[Place]) -> None:
        """Ask for the ends of `places`."""
        if places:
            self._asked = [ask_ends(self._client, places, level) for level in _LEVELS]

    def answer(self) -> dict[Place, End] | None:
        """Return the ends of which the brokers told, None while the question is under way."""
        if wait([future for each in self._asked for future in each.values()], timeout=0).not_done:
            return None
        stable, high = self._asked
        self._asked = []
        found: dict[Place, End] = {}
        for place, future in stable.items():
            try:
                found[place] = End(offset_in(future.result()), offset_in(high[place].result()))
            except KafkaException:
                continue  # no leader now, or no answer: the next question tells
        return found
