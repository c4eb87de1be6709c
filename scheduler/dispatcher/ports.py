"""What the dispatcher needs of the world. `kafka` and `storage` implement these; simulations do too.

Topic names are without the configured prefix (`changelog`, `retry.5s`, `leases.default`); adapters add it.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from scheduler.core.inputs import Input


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record read from an input of a shard. `at_ms` is the broker's append time."""

    input: Input
    shard: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None


class Budget(msgspec.Struct, frozen=True):
    """What one poll may return at most."""

    records: int
    size_bytes: int


class Polled(msgspec.Struct):
    """The result of one poll.

    `records` are in order within each input partition, urgent inputs first. `gained` and `lost` are shards
    whose `reports` partition came or went during the poll; a shard may be in both: handle `lost` first. For a
    gained shard nothing is read until `Log.follow`, of a lost one nothing is in `records`. `ended` names inputs
    that are read to their last record, and the offset where they end: as far as the client knows, which learns
    nothing while the leader is away. `ends` answers `Log.ask_ends`.
    """

    records: list[Record]
    gained: list[int]
    lost: list[int]
    ended: list[tuple[int, Input, int]]
    ends: dict[tuple[int, Input], int] = {}


def is_empty(polled: Polled) -> bool:
    """Say whether a poll brought nothing at all."""
    return not (polled.records or polled.ended or polled.ends or polled.gained or polled.lost)


BY_KEY: Final = -1
"""The partition of a record that goes where its key says."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """One record to be produced. `foreign` topics are the users' own: no prefix is added."""

    topic: str
    partition: int  # or BY_KEY
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str], ...] = ()
    foreign: bool = False


class LogError(Exception):
    """Root of what the log raises; the families say what the caller must do."""


class MustAbort(LogError):
    """The transaction failed and must be aborted; the producer lives. `topic`: where a record was refused."""

    def __init__(self, message: str, *, topic: str = "", key: bytes | None = None) -> None:
        """Remember the record that was refused, if one was."""
        super().__init__(message)
        self.topic = topic
        self.key = key


class TopicStuck(MustAbort):
    """A topic of a user's takes no records: those for it timed out, while what went to ours arrived."""


class Fenced(LogError):
    """Somebody else owns the transactional id or the membership: drop everything, `Log.reopen`, rejoin."""


class OutcomeUnknown(LogError):
    """The commit may or may not have happened: `Log.reopen`, drop all shards, restore, adopt."""


class PositionLost(LogError):
    """An input's next record no longer exists: deleted, or the log was truncated. Never skip it silently.

    `Log.poll` raises it once per input, before it reads anything else, and delivers nothing more of that input
    until it is followed anew. `wanted` is the offset asked for; the log holds `low` up to before `high` (-1 each:
    not known). A log that was truncated may hold `wanted` again: then `cut` is where it lost its end, -1 otherwise.
    """

    def __init__(
        self, topic: str, partition: int, wanted: int, low: int, high: int, *, cut: int = -1
    ) -> None:
        """Remember the coordinates; `topic` is without prefix."""
        what = f"offset {wanted} is gone"
        if cut >= 0:
            what = f"the log was truncated to {cut}, and what was read from there to {wanted} is gone"
        super().__init__(f"{topic}/{partition}: {what}; the log holds {low} to {high}")
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.low = low
        self.high = high
        self.cut = cut


ANYBODY: Final = ""
"""In place of a member's id."""


class Log(Protocol):
    """The group membership, the consumers and the two producers of one dispatcher process.

    Order of a transaction: `begin`, `produce`*, `flush`, `fence`, `commit`. Retriable errors are retried
    inside. Every method may raise `LogError`; `abort` ends a failed transaction and may itself raise `Fenced`.
    """

    @property
    def owner(self) -> str:
        """The transactional id: name + boot id."""

    @property
    def member(self) -> str:
        """The group member id, empty before the first join."""

    def poll(self, budget: Budget, wait_ms: int) -> Polled:
        """Read what is there from all inputs; wait about `wait_ms` for `reports` if there is nothing."""

    def metadata(self) -> object:
        """Return the group metadata as of the last poll; handed to `fence`."""

    def begin(self) -> None:
        """Begin a transaction."""

    def produce_changelog(self, shard: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Add the (key, value) that a shard's changelog gets in this transaction, None for a deletion: all at once."""

    def produce(self, records: Iterable[Outgoing]) -> None:
        """Add records of other topics to the transaction."""

    def flush(self) -> dict[int, int]:
        """Send everything; return the last changelog offset by shard."""

    def fence(self, offsets: dict[tuple[int, Input], int], metadata: object) -> None:
        """Add next offsets by (shard, input), at least one of `reports`, under the given group metadata."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def rewind(self, offsets: dict[tuple[int, Input], int]) -> None:
        """Read the given inputs again from these offsets; drop what is prefetched of them."""

    def follow(
        self, shard: int, offsets: dict[Input, int], leader_epochs: dict[Input, int] | None = None
    ) -> None:
        """Begin to read the given inputs of an owned shard at these offsets.

        Where the leader's epoch of what lies just before is given, a log that was truncated there is a lost position,
        however far it has grown since.
        """

    def leader_epochs(self, shard: int, offsets: dict[Input, int]) -> dict[Input, int]:
        """Return the leaders' epochs of what was read just before these offsets, as far as they are known."""

    def unfollow(self, shard: int) -> None:
        """Stop to read every input of a shard (not its membership)."""

    def pause(self, shard: int, source: Input) -> None:
        """Read no more of one input for now; what is prefetched of it is dropped."""

    def resume(self, shard: int, source: Input, offset: int) -> None:
        """Read a paused input again, from `offset`."""

    def ask_ends(self, inputs: Collection[tuple[int, Input]]) -> None:
        """Ask the leaders of these inputs for their ends, open transactions included, without waiting.

        A later poll returns in `ends` what they said, and nothing of those that did not answer. Only the last
        question counts.
        """

    def release(self, records: Iterable[Outgoing]) -> None:
        """Send outside any transaction, after a commit: leases and notices."""

    def echo(self, shard: int, value: bytes) -> None:
        """Append to `reports` of a shard outside any transaction."""

    def reopen(self) -> None:
        """Make the transactional producer anew with the same id; open transactions of it are resolved."""

    def members(self) -> frozenset[str]:
        """Return the ids of the members that the group has now."""

    def group_offsets(self, shards: Collection[int]) -> dict[tuple[int, Input], int]:
        """Return the offsets that the group has committed for the inputs of these shards, as far as there are any."""

    def partitions(self) -> dict[str, int]:
        """Return the partition counts of our topics as they are now, by name without prefix."""

    def fence_owner(self, owner: str, member: str) -> bool:
        """End what another owner left open if `member` has left the group; say whether it did.

        With `ANYBODY` it is ended in any case: an owner at work starts over.
        """

    def delete_before(self, offsets: dict[tuple[int, Input], int]) -> None:
        """Delete consumed prefixes: records of the inputs before these offsets."""

    def close(self) -> None:
        """Leave the group and close all clients."""


class Restored(msgspec.Struct, frozen=True):
    """A slice of a changelog read back.

    `entries` are (key, value or None) in log order; `next_offset` is where reading goes on, counting
    markers and aborted records. `done`: the end asked for at `begin` has been reached; of a standby, that hardly
    anything is left to read for now. `at_ms` is the append time of the last entry, 0 if it is not told.
    """

    shard: int
    entries: list[tuple[bytes, bytes | None]]
    next_offset: int
    done: bool
    at_ms: int = 0


class Changelog(Protocol):
    """Reads changelogs back, several shards at once."""

    def begin(self, shard: int, offset: int) -> None:
        """Start to read a shard from `offset` to its end as of now (asked with read uncommitted).

        Raises `ValueError` if `offset` lies before the log's start or beyond its end: the local state is
        unusable, wipe it and begin at the log's start with `offset=-1`.
        """

    def poll(self, wait_ms: int) -> list[Restored]:
        """Return some of what came; wait at most `wait_ms` if there is nothing. An empty list: nothing for now."""

    def held_back(self, shard: int) -> bool:
        """Say whether everything readable was read and an open transaction hides the rest."""

    def stop(self, shard: int) -> None:
        """Forget a shard."""

    def close(self) -> None:
        """Close the client."""


class Follower(Protocol):
    """Reads the changelogs of shards that others own, without an end: what has committed, and append times."""

    def follow(self, shard: int, offset: int) -> None:
        """Read a shard from `offset` on, or from the log's start with -1. Doesn't wait."""

    def poll(self) -> list[Restored]:
        """Return some of what came; never waits.

        Raises `PositionLost` if the log does not hold a shard's next offset, which is followed no more then, and
        `LogError` for other trouble, which passes.
        """

    def lag(self, shard: int) -> int:
        """Return how many offsets a followed shard is behind, as far as is known without asking."""

    def stop(self, shard: int) -> None:
        """Follow a shard no more."""

    def close(self) -> None:
        """Close the client."""


class Peer(msgspec.Struct, frozen=True):
    """A member of the group. `name` outlives the process, `member` does not."""

    member: str
    name: str
    shards: frozenset[int]


class Roster(Protocol):
    """Who is in the group and holds what, asked without waiting."""

    def ask(self) -> None:
        """Ask, unless an answer is still to come."""

    def answer(self) -> list[Peer] | None:
        """Return an answer that has come, once; None if there is none, or the group is on the move."""


class Store(Protocol):
    """An ordered key-value store that holds a prefix of one shard's changelog and local indexes."""

    @property
    def offset(self) -> int:
        """The changelog offset to go on from; -1 for an empty store."""

    @property
    def written_at_ms(self) -> int:
        """The `at_ms` of the last write; 0 for an empty store."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Return at most `limit` entries with start <= key < stop, in key order."""

    def write(
        self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], offset: int, at_ms: int
    ) -> None:
        """Apply one batch atomically, with the changelog offset to go on from. A key is put or deleted, not both."""

    def flush(self) -> None:
        """Make all writes so far survive a crash of the process."""

    def close(self) -> None:
        """Flush and close; the store is unusable afterwards."""


class Stores(Protocol):
    """Opens the stores of shards."""

    def open(self, shard: int) -> Store:
        """Open a shard's store, empty if it is new. A damaged one is wiped once; then `StoreUnusable`."""

    def wipe(self, shard: int) -> Store:
        """Close and empty a shard's store and open it anew."""


class StoreUnusable(Exception):
    """A local store can't be opened even when new: full disk, permissions. The message names the path."""


class Clock(Protocol):
    """Where the edge reads time, once per turn."""

    def wall_ms(self) -> int:
        """Return Unix milliseconds."""

    def mono_ms(self) -> int:
        """Return milliseconds of a clock that never steps, CLOCK_BOOTTIME where there is one."""


class Chance(Protocol):
    """Where randomness comes from."""

    def fraction(self) -> float:
        """Return a number uniform in [0, 1)."""

    def token(self) -> bytes:
        """Return 16 random bytes that nobody can guess."""
