"""What the group gives and takes: the callbacks of the driver consumer.

They run inside the driver's poll only, touch nothing but the driver, and leave notes for the log to act on.
"""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from scheduler.dispatcher.ports import Fenced, LogError
from scheduler.kafka.troubles import LOG


class Membership:
    """Assigns gained partitions paused, and notes what came and went."""

    def __init__(self, earliest: Callable[[list[TopicPartition]], list[TopicPartition]], shards: int) -> None:
        """`earliest` puts the earliest offset into each of the partitions given; `shards` is how many there are."""
        self._earliest = earliest
        self._shards = shards
        self._gained: list[int] = []
        self._lost: list[int] = []
        self.owned: set[int] = set()
        self.failure: LogError | None = None

    def join(self, driver: Consumer, topic: str) -> None:
        """Subscribe `driver` to the one driver topic."""
        driver.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def changes(self) -> tuple[list[int], list[int]]:
        """Return and forget (gained, lost) since the last call."""
        changed = self._gained, self._lost
        self._gained, self._lost = [], []
        return changed

    def lose_all(self) -> None:
        """Note the loss of everything: the driver is closed."""
        if self.owned:
            self._on_revoke(None, [TopicPartition("", shard) for shard in sorted(self.owned)])

    def _on_assign(self, driver: Consumer, partitions: list[TopicPartition]) -> None:
        """Assign at a numeric offset and pause at once.

        Without a group offset the client would ask for its reset policy, `error`, and refuse every later seek.
        A fetch may slip out between assign and pause, hence an offset that exists; what it brings is discarded
        by the pause, and would find no cursor in the reader.

        Nothing leaves this as an exception: `consume` would drop the records that it had in hand, and the client
        would go on behind them.
        """
        if not partitions:
            return  # the new protocol calls with an empty list now and then
        placed = self._placed(partitions)
        try:
            driver.incremental_assign(placed)
            driver.pause(placed)
        except KafkaException as refused:
            self.failure = Fenced(f"taking up {placed}: {refused}")
            return
        shards = [each.partition for each in partitions if each.partition < self._shards]
        if len(shards) < len(partitions):
            # Somebody raised the partition count. The old layout goes on: a key's shard is its hash modulo S.
            LOG.error("the driver topic has more than %d partitions; the new ones stay unread", self._shards)
        self.owned.update(shards)
        self._gained.extend(shards)
        LOG.info("gained shards %s", shards)

    def _placed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Put offsets into partitions: the earliest if the brokers say it soon, else 0.

        From 0 a fetch may be told that there is no such offset. Nobody follows the partition yet, so that goes
        unheard, and to follow it the reader takes it up anew (`Reader.start`).
        """
        try:
            return self._earliest(partitions)
        except LogError as error:
            LOG.warning("no earliest offsets for %s: %s", partitions, error)
            return [TopicPartition(each.topic, each.partition, 0) for each in partitions]

    def _on_revoke(self, _driver: Consumer | None, partitions: list[TopicPartition]) -> None:
        """Note the loss; the client unassigns by itself when this returns.

        Revoked and lost alike mean: drop, write nothing. After a long stall the client calls either.
        """
        shards = [each.partition for each in partitions if each.partition < self._shards]
        self.owned.difference_update(shards)
        self._gained = [shard for shard in self._gained if shard not in shards]
        self._lost.extend(shards)
        LOG.info("lost shards %s", shards)
