"""Where inputs end, in their leaders' own word: asked without waiting, answered in a later poll."""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not re-exported by the stub's rules
    ListOffsetsResultInfo,
    OffsetSpec,
)

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.kafka.admin import Admin
from scheduler.kafka.names import Names
from scheduler.kafka.told_offsets import offset_in
from scheduler.kafka.troubles import LOG

_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_ANSWER_S: Final = 5.0
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
        at = {
            (shard, source): TopicPartition(self._names.full(TOPIC_OF[source]), shard)
            for shard, source in inputs
        }
        # With what is in open transactions: it was appended before now, and may become readable yet.
        answers = self._client.list_offsets(
            dict.fromkeys(at.values(), _LATEST),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_ANSWER_S,
        )
        self._asked = {key: answers[partition] for key, partition in at.items()}

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
