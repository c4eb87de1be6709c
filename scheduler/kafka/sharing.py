"""How one poll's budget is shared among the readers."""

from collections.abc import Callable, Sequence
from typing import Protocol

from scheduler.core import bounds
from scheduler.dispatcher.ports import Budget, Polled


class Source(Protocol):
    """What a budget is spent on; a `consumers.Reader` is one."""

    def take(self, records: int, size_bytes: int, into: Polled) -> tuple[int, int]:
        """Move at most `records` to `into`; return how many and their bytes."""


def read(sources: Sequence[Source], budget: Budget, into: Polled, after_first: Callable[[], None]) -> bool:
    """Serve the sources in their order, urgent first; say whether the order of the records was broken for it.

    Each source has at least a tenth of the budget, whatever the ones before it hold: a flood in an urgent topic,
    reports after an outage for example, never keeps the others from being read at all. What is left over goes to
    those that had more, again in their order. `after_first` is called once the first source has been served.
    """
    share = Budget(budget.records // bounds.BULK_SHARE, budget.size_bytes // bounds.BULK_SHARE)
    left, size_left = budget.records, budget.size_bytes
    unfinished: list[Source] = []
    for n, source in enumerate(sources):
        behind = len(sources) - 1 - n
        wanted = left - behind * share.records
        size_wanted = max(size_left - behind * share.size_bytes, 1)  # never nothing: sizes may be overshot
        taken = size = 0
        if wanted > 0:
            taken, size = source.take(wanted, size_wanted, into)
        if n == 0:
            after_first()
        left, size_left = left - taken, size_left - size
        if wanted <= 0 or taken >= wanted or size >= size_wanted:
            unfinished.append(source)
    return _spend_rest(unfinished, left, size_left, into)


def _spend_rest(sources: Sequence[Source], left: int, size_left: int, into: Polled) -> bool:
    broken = False
    for source in sources:
        if left <= 0 or size_left <= 0:
            break
        taken, size = source.take(left, size_left, into)
        left, size_left = left - taken, size_left - size
        broken = broken or taken > 0
    return broken
