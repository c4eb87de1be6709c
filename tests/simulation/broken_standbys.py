"""Broken variants of the warm copies that standbys keep.

That a copy is begun anew once it is too old (`Standbys._take`) is not among them: no world here keeps a process from its
brokers for long enough. `dispatcher/test_standbys.py` fails without it.
"""

from functools import partial
from typing import Any
from unittest.mock import patch

from scheduler.dispatcher import standbys
from scheduler.dispatcher.ports import Restored
from tests.dispatcher.standby_ports import FaultFollower
from tests.simulation.breaking import Patches, variant


@variant("a copy of what is open may hold what never commits", "turns")
def copies_of_what_is_open() -> Patches:
    def uncommitted(self: Any, shard: int) -> Restored | None:
        start, log = self.next[shard], self._broker.log("changelog", shard)
        skipped = self._broker._skipped.get(("changelog", shard), ())
        self.next[shard] = len(log)
        found = [log[offset] for offset in range(start, len(log)) if offset not in skipped]
        entries = [(stored.key or b"", stored.value) for stored in found]
        return Restored(shard, entries, len(log), done=True) if len(log) > start else None

    yield patch.object(FaultFollower, "_slice", uncommitted)


@variant("a copy counts the offset of what it holds", "turns")
def copies_that_count_ahead() -> Patches:
    original = standbys.Standbys._take

    def take(self: Any, restore: Any, restored: Any) -> None:
        write = restore.store.write
        ahead = partial(_write_ahead, write)
        with patch.object(restore.store, "write", ahead):
            original(self, restore, restored)

    yield patch.object(standbys.Standbys, "_take", take)


def _write_ahead(write: Any, puts: Any, deletes: Any, offset: int, at_ms: int) -> None:
    write(puts, deletes, offset + 1, at_ms)
