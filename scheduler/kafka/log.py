"""The dispatcher's `Log` on a real Kafka: membership, six consumers, two producers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaException, TopicPartition

from scheduler.core.inputs import INPUT_OF, RETRIES, TOPIC_OF, Input
from scheduler.dispatcher.ports import (
    ANYBODY,
    Budget,
    Fenced,
    LogError,
    MustAbort,
    Outgoing,
    Polled,
    PositionLost,
    Record,
    is_empty,
)
from scheduler.kafka import client_settings
from scheduler.kafka.admin import Admin
from scheduler.kafka.asked_ends import AskedEnds
from scheduler.kafka.consumers import Reader
from scheduler.kafka.cuts import find_cut
from scheduler.kafka.epochs import UNKNOWN
from scheduler.kafka.fencing import resolve_transactions_of
from scheduler.kafka.lost_markers import LostMarkers
from scheduler.kafka.membership import Membership
from scheduler.kafka.names import Names
from scheduler.kafka.plain_producer import PlainProducer
from scheduler.kafka.sharing import read
from scheduler.kafka.stable_ends import StableEnds
from scheduler.kafka.transaction import TransactionalProducer
from scheduler.kafka.troubles import LOG, Troubles
from scheduler.kafka.watchdog import Silent, Told, Watchdog

REPORTS: Final = TOPIC_OF[Input.REPORTS]

_ASIDE_S: Final = 1.0
"""How long a question beside the turn's own work, from a rebalance callback for example, may hold the turn up."""

_WAIT_FOR: Final = 32
"""So many reports end a wait. The bytes of these few are not counted beforehand."""

FOLLOWERS: Final[tuple[tuple[Input, ...], ...]] = (
    (Input.REQUESTS, Input.COMMANDS),
    (Input.SUBMIT_INTERACTIVE,),
    (Input.SUBMIT_DEFAULT,),
    RETRIES,
    (Input.SUBMIT_BULK,),
)
"""One consumer each, in the order in which they are served after `reports`."""


_RANK: Final = {source: rank for rank, source in enumerate((Input.REPORTS, *chain.from_iterable(FOLLOWERS)))}


class LogSettings(msgspec.Struct, frozen=True):
    """How one dispatcher process takes part. `name` and `boot_id` make its transactional id."""

    properties: Mapping[str, str]
    name: str
    boot_id: str
    prefix: str = "jobs."
    group: str = ""  # by default the prefix and "dispatcher"
    shards: int = 1 << 31  # partitions beyond are never owned: the count of a running system must not change

    @property
    def group_id(self) -> str:
        """The consumer group of all dispatchers."""
        return self.group or f"{self.prefix}dispatcher"

    @property
    def owner(self) -> str:
        """The transactional id. It begins with the prefix, so that one prefixed ACL covers it."""
        return f"{self.prefix}dispatcher.{self.name}.{self.boot_id}"


class KafkaLog:
    """See `dispatcher.ports.Log`. Used by one thread."""

    def __init__(self, settings: LogSettings, told: Told | None = None) -> None:
        """Open the transactional producer, then join the group; `told` hears what the watchdog finds.

        In this order, so that whatever an earlier process left open under this id ends before anything is read.
        Raises `LogError` if no broker answers within 30 s.
        """
        self._settings = settings
        self._names = Names(settings.prefix)
        self._troubles = Troubles()
        self._admin = Admin(settings.properties)
        self._transactions = TransactionalProducer(
            client_settings.transactional(settings.properties, settings.owner), self._names, self._troubles
        )
        self._transactions.open()
        self._lost = LostMarkers(settings.properties, settings.group_id, self._names, self._admin)
        plain = client_settings.plain(settings.properties)
        self._plain = PlainProducer(plain, self._names, self._troubles)
        self._deletions: list[Future[Any]] = []
        self._ends = AskedEnds(self._admin, self._names)
        self._membership = Membership(self._earliest, settings.shards)
        self._watchdog = Watchdog(StableEnds(self._admin.client), self._names, told or Silent())
        self._dead = False
        self._join()

    @property
    def owner(self) -> str:
        """The transactional id."""
        return self._settings.owner

    @property
    def member(self) -> str:
        """The group member id, empty before the first join. Asks the client's own thread: tens of microseconds."""
        return self._driver.consumer.memberid() or ""

    # -- reading -----------------------------------------------------------------------------------------

    def poll(self, budget: Budget, wait_ms: int) -> Polled:
        """Read what is there from all inputs; wait at most `wait_ms` on `reports` if there is nothing."""
        self._raise_pending()
        polled = Polled([], [], [], [])
        if read(self._readers, budget, polled, lambda: self._follow_membership(polled)):
            polled.records.sort(key=_by_urgency)  # stable, so each partition's order stays
        polled.ends = self._ends.answers()
        if wait_ms > 0 and is_empty(polled):
            self._wait(budget, wait_ms, polled)
        if polled.lost:
            _drop(polled)
        self._plain.serve()
        self._watchdog.serve(self._readers)
        return polled

    def _wait(self, budget: Budget, wait_ms: int, polled: Polled) -> None:
        self._driver.wait(wait_ms / 1000, min(budget.records, _WAIT_FOR), polled)
        if 0 < len(polled.records) < budget.records:
            self._driver.take(budget.records - len(polled.records), budget.size_bytes, polled)
        self._follow_membership(polled)

    def _follow_membership(self, polled: Polled) -> None:
        gained, lost = self._membership.changes()
        polled.gained = [shard for shard in polled.gained if shard not in lost] + gained
        polled.lost += lost
        for shard in lost:
            self._driver.forget(shard)
            for reader in self._followers:
                for source in reader.inputs:
                    reader.stop(shard, source)

    def _raise_pending(self) -> None:
        """Raise what the last poll met. It was kept until now so that the records read beside it were not lost."""
        parts: tuple[Membership | Reader, ...] = (self._membership, *self._readers)
        for part in parts:
            if part.failure is not None:
                failure, part.failure = part.failure, None
                self._dead = self._dead or isinstance(failure, Fenced)
                raise failure
        for reader in self._readers:
            if reader.lost:
                raise self._with_ends(reader.lost.pop(0))

    def _with_ends(self, lost: PositionLost) -> PositionLost:
        at = [TopicPartition(self._names.full(lost.topic), lost.partition)]
        try:
            low = self._admin.earliest(at, _ASIDE_S)[0].offset
            high = self._admin.latest(at, _ASIDE_S)[0].offset
        except LogError:
            return lost
        cut = self._cut(lost, low) if lost.cut < 0 and low < lost.wanted <= high else lost.cut
        return PositionLost(lost.topic, lost.partition, lost.wanted, low, high, cut=cut)

    def _cut(self, lost: PositionLost, low: int) -> int:
        """Return where a log lost its end that holds more than what is wanted, as far as that can be told."""
        source = INPUT_OF[lost.topic]
        epoch = self._reader_of[source].epoch_before(lost.partition, source, lost.wanted)
        if epoch == UNKNOWN:
            return -1
        place = self._names.full(lost.topic), lost.partition
        settings = self._settings
        return find_cut(settings.properties, settings.group_id, place, low, lost.wanted - 1, epoch)

    def metadata(self) -> object:
        """Return the group metadata as of the last poll.

        A member that has shards to give up joins again only after its callbacks have run, inside poll. So between a
        poll and this call it can't slip into a newer generation with them, and what was read under the old one stays
        fenced by it. One that has none may join in the background; it has nothing to commit.
        """
        return self._driver.consumer.consumer_group_metadata()

    # -- the transaction ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction."""
        self._transactions.begin()

    def produce_changelog(self, shard: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Add everything that a shard's changelog gets in this transaction."""
        self._transactions.produce_changelog(shard, entries)

    def produce(self, records: Iterable[Outgoing]) -> None:
        """Add records of other topics to the transaction."""
        self._transactions.produce(records)

    def flush(self) -> dict[int, int]:
        """Send everything; return the last changelog offset by shard."""
        return self._transactions.flush()

    def fence(self, offsets: Mapping[tuple[int, Input], int], metadata: object) -> None:
        """Add next offsets by (shard, input), at least one of `reports`, under the given group metadata.

        The offsets carry the fence: the broker checks the membership only when it gets some. The client drops
        logical and invalid ones without a word, and the transaction then commits unfenced; hence the assertions.
        """
        assert any(source is Input.REPORTS for _, source in offsets), (
            "no transaction without the driver's offset"
        )
        assert all(offset >= 0 for offset in offsets.values()), offsets
        if not self.member:
            # Thrown out, and the client has heard of it in the background. Metadata taken since then may name nobody,
            # and the broker lets that pass: it takes us for a producer of before there was this fence. A member joins
            # again only inside poll, so one that has a name now had it when the metadata was taken.
            raise MustAbort("no member of the group any more")
        partitions = [
            TopicPartition(self._names.full(TOPIC_OF[source]), shard, offset)
            for (shard, source), offset in offsets.items()
        ]
        self._transactions.send_offsets(partitions, metadata)

    def commit(self) -> None:
        """Commit the transaction."""
        self._transactions.commit()

    def abort(self) -> None:
        """Abort the transaction, for good: the next one would commit what the coordinator has lost sight of."""
        self._transactions.abort()
        self._transactions.end_lost(self._lost)

    # -- where to read ------------------------------------------------------------------------------------------

    def rewind(self, offsets: Mapping[tuple[int, Input], int]) -> None:
        """Read the given inputs again from these offsets; drop what is prefetched of them."""
        for (shard, source), offset in offsets.items():
            self._reader_of[source].rewind(shard, source, offset)

    def follow(
        self, shard: int, offsets: Mapping[Input, int], leader_epochs: Mapping[Input, int] | None = None
    ) -> None:
        """Begin to read the given inputs of an owned shard at these offsets.

        Where the leader's epoch of what lies just before is given, the log has to hold that still, as far as it is not
        deleted; else the position is lost.
        """
        assert shard in self._membership.owned, f"shard {shard} is not ours"
        epochs = leader_epochs or {}
        for source, offset in offsets.items():
            assert offset >= 0, f"{source.name} of shard {shard} at {offset}"
            self._reader_of[source].start(shard, source, offset, epochs.get(source, UNKNOWN))

    def leader_epochs(self, shard: int, offsets: Mapping[Input, int]) -> dict[Input, int]:
        """Return the leaders' epochs of what was read just before these offsets, as far as they are known."""
        epochs = {
            source: self._reader_of[source].epoch_before(shard, source, offset)
            for source, offset in offsets.items()
        }
        return {source: epoch for source, epoch in epochs.items() if epoch != UNKNOWN}

    def unfollow(self, shard: int) -> None:
        """Stop to read every input of a shard (not its membership)."""
        for reader in self._readers:
            for source in reader.inputs:
                reader.stop(shard, source)

    def pause(self, shard: int, source: Input) -> None:
        """Read no more of one input for now; what is prefetched of it is dropped."""
        self._reader_of[source].pause(shard, source)

    def resume(self, shard: int, source: Input, offset: int) -> None:
        """Read a paused input again, from `offset`."""
        self._reader_of[source].resume(shard, source, offset)

    def ask_ends(self, inputs: Collection[tuple[int, Input]]) -> None:
        """Ask the leaders of these inputs for their ends, without waiting."""
        self._ends.ask(inputs)

    # -- outside transactions -------------------------------------------------------------------------------------

    def release(self, records: Iterable[Outgoing]) -> None:
        """Send outside any transaction, after a commit: leases and notices."""
        assert not self._transactions.in_transaction, "leases leave only after their commit"
        self._plain.send(records)

    def echo(self, shard: int, value: bytes) -> None:
        """Append to `reports` of a shard outside any transaction."""
        self._plain.send((Outgoing(REPORTS, shard, None, value),))

    def delete_before(self, offsets: Mapping[tuple[int, Input], int]) -> None:
        """Delete consumed prefixes. Does not wait: brokers with followers take half a second to answer."""
        self._check_deletions()
        if not offsets:
            return
        at = [
            TopicPartition(self._names.full(TOPIC_OF[source]), shard, offset)
            for (shard, source), offset in offsets.items()
        ]
        self._deletions = list(self._admin.client.delete_records(at).values())

    def members(self) -> frozenset[str]:
        """Return the ids of the members that the group has now."""
        return self._admin.members(self._settings.group_id, _ASIDE_S)

    def group_offsets(self, shards: Collection[int]) -> dict[tuple[int, Input], int]:
        """Return the offsets that the group has committed for the inputs of these shards, as far as there are any."""
        source_of = {self._names.full(topic): source for source, topic in TOPIC_OF.items()}
        asked = [TopicPartition(topic, shard) for shard in shards for topic in source_of]
        try:
            told = self._driver.consumer.committed(asked, _ASIDE_S)
        except KafkaException as refused:
            raise LogError(f"group offsets: {refused}") from refused
        return {(each.partition, source_of[each.topic]): each.offset for each in told if each.offset >= 0}

    def partitions(self) -> dict[str, int]:
        """Return the partition counts of our topics as they are now, by name without prefix."""
        return self._admin.partitions(self._settings.prefix, _ASIDE_S)

    def fence_owner(self, owner: str, member: str) -> bool:
        """End what another owner left open if its member has left the group; say whether it did.

        That includes what the coordinator has lost sight of.
        """
        if not owner or owner == self.owner:
            return False
        if member != ANYBODY and member in self.members():
            return False
        resolve_transactions_of(owner, self._settings.properties)
        self._lost.end_of_dead(lambda: resolve_transactions_of(owner, self._settings.properties), owner)
        return True

    def reopen(self) -> None:
        """Make the transactional producer anew with the same id; open transactions of it are resolved.

        That includes those that the coordinator has lost sight of: what comes next would end them in its own way.
        Consumers that are dead (a static member was fenced) are made anew too; the next poll reports every shard
        as lost.
        """
        self._transactions.open()
        self._transactions.end_lost(self._lost)
        if self._dead:
            self._leave()
            self._join()
            self._watchdog.forget()

    def close(self) -> None:
        """Abort what is open, send what waits, leave the group and close all clients, in this order.

        So the successor, who gets the shards when we leave, finds no open transaction in its way.
        """
        self._transactions.close()
        self._plain.close()
        self._leave()
        self._check_deletions()

    # -- clients --------------------------------------------------------------------------------------------------

    def _earliest(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return self._admin.earliest(partitions, _ASIDE_S)

    def _join(self) -> None:
        properties, group = self._settings.properties, self._settings.group_id
        named = {"client.id": self._settings.name, **properties}  # by which others know us, see `roster`
        member = self._troubles.consumer(client_settings.driver(named, group))
        self._driver = Reader(member, {REPORTS: Input.REPORTS}, self._names, by_hand=False)
        follower = client_settings.follower(properties, group)
        self._followers = [self._follower(follower, inputs) for inputs in FOLLOWERS]
        self._readers = [self._driver, *self._followers]
        self._reader_of = {source: reader for reader in self._readers for source in reader.inputs}
        self._dead = False
        self._membership.join(member, self._names.full(REPORTS))

    def _follower(self, settings: client_settings.Properties, inputs: tuple[Input, ...]) -> Reader:
        topics = {TOPIC_OF[source]: source for source in inputs}
        return Reader(self._troubles.consumer(settings), topics, self._names, by_hand=True)

    def _leave(self) -> None:
        for reader in self._readers:
            reader.consumer.close()
        self._membership.lose_all()

    def _check_deletions(self) -> None:
        """Look at the answers to the last `delete_before`; a failure is tried again with the next one."""
        for deletion in self._deletions:
            if deletion.done() and deletion.exception() is not None:
                LOG.warning("consumed records not deleted: %s", deletion.exception())
        self._deletions = []


def _by_urgency(record: Record) -> int:
    return _RANK[record.input]


def _drop(polled: Polled) -> None:
    """Take out what was read of shards that were lost within the same poll."""
    lost = set(polled.lost)
    polled.records = [record for record in polled.records if record.shard not in lost]
    polled.ended = [each for each in polled.ended if each[0] not in lost]
