"""Questions to the brokers, with deadlines and typed answers."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, TypeVar

import msgspec
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not re-exported by the stub's rules
    AdminClient,
    ConfigResource,
    ConsumerGroupDescription,
    OffsetSpec,
    ResourceType,
)

from scheduler.dispatcher.ports import LogError
from scheduler.kafka import client_settings
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import REFUSED_ACCESS, describe, error_of
from scheduler.kafka.told_offsets import offset_in
from scheduler.kafka.troubles import Troubles

ANSWER_S: Final = 10.0
_CALL_S: Final = 5.0
_PAUSE_S: Final = 0.05
_COORDINATOR_S: Final = 3_600.0
"""How long the client itself may look for a group's coordinator: the longest that it takes. We stop waiting long before.

If that time passes while a broker's answer is on its way, the client ends the whole process when it comes: what was
asked for is freed by then (librdkafka issue 4605). Of our questions only those to a coordinator are answered so.
"""

_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]

T = TypeVar("T")
K = TypeVar("K")


class ObservedTopic(msgspec.Struct, frozen=True):
    """A topic as it stands on the brokers. `replication_factor` is that of its least replicated partition."""

    topic_id: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class ObservedCluster(msgspec.Struct, frozen=True):
    """The cluster's id, the topics with our prefix by name without it, and how many brokers there are."""

    cluster_id: str
    topics: dict[str, ObservedTopic]
    brokers: int = 1


class Admin:
    """An admin client that waits for answers and retries what is worth it.

    Every method raises `LogError` when no answer came within `within_s`, 10 s by default, or the brokers refused.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Connect lazily with librdkafka `properties`."""
        self._troubles = Troubles()
        self._bootstrap = properties.get("bootstrap.servers", "")
        settings = client_settings.admin(properties)
        self.client = AdminClient(self._troubles.attached(settings))  # type: ignore[arg-type]

    def earliest(self, partitions: list[TopicPartition], within_s: float = ANSWER_S) -> list[TopicPartition]:
        """Return the partitions at their earliest offsets."""
        return self._offsets(partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED, within_s)

    def latest(self, partitions: list[TopicPartition], within_s: float = ANSWER_S) -> list[TopicPartition]:
        """Return the partitions at their end, open transactions included."""
        return self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED, within_s)

    def committed_end(
        self, partitions: list[TopicPartition], within_s: float = ANSWER_S
    ) -> list[TopicPartition]:
        """Return the partitions at their last stable offset: where a read_committed consumer stops."""
        return self._offsets(partitions, _LATEST, IsolationLevel.READ_COMMITTED, within_s)

    def members(self, group: str, within_s: float = ANSWER_S) -> frozenset[str]:
        """Return the ids of the members that `group` has now."""
        return frozenset(member.member_id for member in self._group(group, within_s).members)

    def shares(self, group: str, within_s: float = ANSWER_S) -> list[int]:
        """Return how many partitions each member of `group` holds."""
        members = self._group(group, within_s).members
        return [len(member.assignment.topic_partitions) for member in members]

    def _group(self, group: str, within_s: float) -> ConsumerGroupDescription:
        call_s = min(_CALL_S, within_s)

        return self._insist(
            "describe_consumer_groups", lambda: self.described(group).result(call_s), within_s
        )

    def described(self, group: str) -> "Future[ConsumerGroupDescription]":
        """Ask for the members of `group` and what they hold, without waiting."""
        asked: Future[ConsumerGroupDescription] = self.client.describe_consumer_groups(
            [group], request_timeout=_COORDINATOR_S
        )[group]
        return asked

    def partitions(self, prefix: str, within_s: float = ANSWER_S) -> dict[str, int]:
        """Return the partition counts of the topics whose names begin with `prefix`, by name without it."""
        call_s = min(_CALL_S, within_s)
        metadata = self._insist("list_topics", lambda: self.client.list_topics(timeout=call_s), within_s)
        return {
            name.removeprefix(prefix): len(topic.partitions)
            for name, topic in metadata.topics.items()
            if name.startswith(prefix)
        }

    def cluster(self, prefix: str) -> ObservedCluster:
        """Describe the cluster and all topics whose names begin with `prefix`. Needs DESCRIBE only."""
        metadata = self._insist("list_topics", lambda: self.client.list_topics(timeout=_CALL_S))
        names = sorted(name for name in metadata.topics if name.startswith(prefix))
        described = self._ask(
            "describe_cluster", lambda: self.client.describe_cluster(request_timeout=_CALL_S)
        )
        topics = self._topics(names) if names else {}
        bare = {name.removeprefix(prefix): topic for name, topic in topics.items()}
        return ObservedCluster(described.cluster_id, bare, len(metadata.brokers))

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Return those of `topics`, full names, that do not exist, in order."""
        metadata = self._insist("list_topics", lambda: self.client.list_topics(timeout=_CALL_S))
        return sorted(set(topics) - set(metadata.topics))

    def _topics(self, names: list[str]) -> dict[str, ObservedTopic]:
        described = self._all(
            "describe_topics",
            lambda: self.client.describe_topics(TopicCollection(names), request_timeout=_CALL_S),
        )
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        configs = self._all(
            "describe_configs", lambda: self.client.describe_configs(resources, request_timeout=_CALL_S)
        )
        by_name = {
            resource.name: {entry.name: entry.value or "" for entry in entries.values()}
            for resource, entries in configs.items()
        }
        return {
            name: ObservedTopic(
                str(topic.topic_id),
                len(topic.partitions),
                min((len(partition.replicas) for partition in topic.partitions), default=0),
                by_name[name],
            )
            for name, topic in described.items()
        }

    def _offsets(
        self,
        partitions: list[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel,
        within_s: float = ANSWER_S,
    ) -> list[TopicPartition]:
        asked = {TopicPartition(each.topic, each.partition): spec for each in partitions}

        def ask() -> list[TopicPartition]:
            answers = self.client.list_offsets(
                asked, isolation_level=isolation, request_timeout=min(_CALL_S, within_s)
            )
            return [
                TopicPartition(at.topic, at.partition, offset_in(future.result(_CALL_S + 1)))
                for at, future in answers.items()
            ]

        return self._insist("list_offsets", ask, within_s)

    def _ask(self, name: str, call: Callable[[], "Future[T]"]) -> T:
        return self._insist(name, lambda: call().result(_CALL_S + 1))

    def _all(self, name: str, call: Callable[[], Mapping[K, "Future[T]"]]) -> dict[K, T]:
        return self._insist(name, lambda: {key: future.result(_CALL_S + 1) for key, future in call().items()})

    def _insist(self, name: str, call: Callable[[], T], within_s: float = ANSWER_S) -> T:
        """Call until an answer comes. A topic created a moment ago answers `NOT_LEADER_FOR_PARTITION` at first."""
        deadline = Deadline(within_s)
        while True:
            try:
                return call()
            except (KafkaException, TimeoutError) as raised:
                error = error_of(raised)
                if deadline.passed or (error is not None and error.code() in _FINAL):
                    raise LogError(self._text(name, error, within_s)) from raised
                self._refresh()

    def _refresh(self) -> None:
        """Ask for the metadata anew, and wait a little: the answer to a stale leader epoch is a newer one."""
        try:
            self.client.list_topics(timeout=_PAUSE_S)
        except KafkaException:
            pass  # the next call says so
        self.client.poll(_PAUSE_S)

    def _text(self, name: str, error: KafkaError | None, within_s: float) -> str:
        if error is None or error.code() in _NO_ANSWER:
            return (
                f"no broker answered at {self._bootstrap} within {within_s:g} s. Start one with 'scheduler dev', "
                f"or set KAFKA_BOOTSTRAP_SERVERS{self._troubles.why()}"
            )
        return f"{name}: {describe(error)}"


_NO_ANSWER: Final = frozenset((KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN))

_FINAL: Final = REFUSED_ACCESS | {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REQUEST,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._INVALID_ARG,
}
"""What asking again would not change. Everything else passes by itself (no leader yet, a leader epoch that the
client's metadata has not caught up with, a coordinator that loads), and the flags of admin answers don't say so."""
