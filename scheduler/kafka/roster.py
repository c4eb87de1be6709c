"""Who is in the dispatchers' group and holds which shards: the `Roster` of standbys."""

from collections.abc import Mapping
from concurrent.futures import Future

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not re-exported by the stub's rules
    ConsumerGroupDescription,
)

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.ports import Peer
from scheduler.kafka.admin import Admin
from scheduler.kafka.names import Names
from scheduler.kafka.troubles import LOG


class KafkaRoster:
    """See `dispatcher.ports.Roster`. One question at a time, of the group's coordinator."""

    def __init__(self, properties: Mapping[str, str], *, prefix: str = "jobs.", group: str = "") -> None:
        """Take librdkafka `properties` and the group of the dispatchers."""
        self._admin = Admin(properties)
        self._group = group or f"{prefix}dispatcher"
        self._topic = Names(prefix).full(TOPIC_OF[Input.REPORTS])
        self._asked: Future[ConsumerGroupDescription] | None = None

    def ask(self) -> None:
        """Ask, unless an answer is still to come."""
        if self._asked is None:
            self._asked = self._admin.described(self._group)

    def answer(self) -> list[Peer] | None:
        """Return an answer that has come, once; None if there is none, or the group is on the move."""
        if self._asked is None or not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        try:
            described = asked.result()
        except KafkaException as refused:
            LOG.info("who holds which shards: %s", refused)
            return None
        if described.state is not ConsumerGroupState.STABLE:
            return None  # members are told without what they hold
        return [
            Peer(
                member.member_id,
                member.client_id,
                frozenset(
                    each.partition for each in member.assignment.topic_partitions if each.topic == self._topic
                ),
            )
            for member in described.members
        ]
