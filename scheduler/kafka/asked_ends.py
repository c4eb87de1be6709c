"""Where inputs end, in their leaders' own word: asked without waiting, answered in a later poll."""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo  # type: ignore[attr-defined]  # public, not re-exported by the stub

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.kafka.admin import Admin
from scheduler.kafka.names import Names
from scheduler.kafka.told_offsets import ask_ends, offset_in
from scheduler.kafka.troubles import LOG

_REFRESH_S: Final = 0.05


class AskedEnds:
    """The last question, and its answers as they come."""

    def __init__(self, admin: Admin, names: Names) -> None:
        """Ask with `admin`."""
        self._client = admin.client
        self._names = names
        self._asked: dict[tuple[int, Input], Future[ListOffsetsResultInfo]] = {}

    def ask(self, inputs: Collection[tuple[int, Input]]) -> None:
        """Ask for these ends. An earlier question is forgotten."""
        at = {(self._names.full(TOPIC_OF[source]), shard): (shard, source) for shard, source in inputs}
        # With what is in open transactions: it was appended before now, and may become readable yet.
        answers = ask_ends(self._client, at, IsolationLevel.READ_UNCOMMITTED)
        self._asked = {at[place]: answer for place, answer in answers.items()}

    def answers(self) -> dict[tuple[int, Input], int]:
        """Return what was answered since the last call."""
        if not self._asked:
            return {}
        done = {key: future for key, future in self._asked.items() if future.done()}
        self._asked = {key: future for key, future in self._asked.items() if key not in done}
        ends: dict[tuple[int, Input], int] = {}
        refused = ""
        for (shard, source), future in done.items():
            try:
                ends[shard, source] = offset_in(future.result())
            except KafkaException as error:
                refused = f"{source.name.lower()}/{shard}: {error}"
        if refused:
            LOG.info("asked for ends, and at least one is not known: %s", refused)
            self._refresh()
        return ends

    def _refresh(self) -> None:
        """Ask for the metadata anew: where a leader has moved, the next question would go astray too."""
        try:
            self._client.list_topics(timeout=_REFRESH_S)
        except KafkaException:
            pass  # the next question says so
