"""Bounds so small that a small world reaches them: full waiting rooms, refilled heads, records left for a later turn."""

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from scheduler.core import bounds, head, shard
from scheduler.dispatcher import reading, restore, waiting_room

TINY = (
    (bounds, "TURN_TIMERS", 5),
    (bounds, "TURN_EXPIRIES", 2),
    (head, "REFILL", 4),
    (head, "SPILL_ABOVE", 12),
    (shard, "_READY_KEPT", 16),
    (reading, "_LOOK_AT_CLOCK_EVERY", 4),
    (waiting_room, "READ_AHEAD", 4),
    (restore, "STEP", 7),
)


@contextlib.contextmanager
def tiny_bounds() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module, name, value in TINY:
            assert hasattr(module, name), f"{module.__name__}.{name} is gone"
            stack.enter_context(patch.object(module, name, value))
        yield
