"""What one turn decides for one shard. Nothing of it is true before the turn's transaction has committed."""

from collections import Counter
from collections.abc import Callable

import msgspec

from scheduler.core.job import JobState
from scheduler.core.notices import Notice
from scheduler.core.outputs import CommandOut, Output


class NoticeOut(msgspec.Struct, frozen=True, gc=False):
    """A notice on its way to a worker's inbox, once the turn has committed."""

    pool: str
    inbox: int
    notice: Notice


class Changes:
    """States and specs by job id (None: dropped), and what leaves the shard."""

    __slots__ = ("counts", "durable", "notices", "outputs", "read", "specs", "states")

    def __init__(self) -> None:
        """Begin with nothing decided."""
        self.states: dict[str, JobState | None] = {}
        self.read: dict[str, JobState | None] = {}  # what the store holds of each job looked at
        self.specs: dict[str, bytes | None] = {}
        self.outputs: list[Output] = []
        self.notices: list[NoticeOut] = []
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.durable = False  # inputs must be remembered although no state changed

    def take_commands(self, held: Callable[[int], bool]) -> list[CommandOut]:
        """Take out the commands to shards for which `held` is true."""
        local: list[CommandOut] = []
        kept: list[Output] = []
        for output in self.outputs:
            if isinstance(output, CommandOut) and held(output.shard):
                local.append(output)
            else:
                kept.append(output)
        if local:
            self.outputs = kept
            self.durable = True
        return local

    def must_commit(self) -> bool:
        """Say whether the turn has to be committed for this shard."""
        return self.durable or bool(self.states or self.specs or self.outputs or self.notices)
