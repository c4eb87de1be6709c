"""The head of an ordered index against a sorted list, whatever the order of pushes, takes, turns and drops."""

import random
from bisect import bisect_left, insort

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.core import head as head_module
from scheduler.core.head import Head

PREFIX = b"t"


class Disk:
    """A sorted list that counts what is scanned."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.read = 0

    def scan(self, start: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        found = self.keys[bisect_left(self.keys, start) : bisect_left(self.keys, stop)][:limit]
        self.read += len(found)
        return [(key, b"") for key in found]

    def put(self, key: bytes) -> None:
        if key not in self.keys:
            insort(self.keys, key)

    def delete(self, key: bytes) -> None:
        if key in self.keys:
            self.keys.remove(key)


def key_of(number: int) -> bytes:
    return PREFIX + number.to_bytes(4, "big")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(head_module, "REFILL", 4)
    monkeypatch.setattr(head_module, "SPILL_ABOVE", 8)


class Model(RuleBasedStateMachine):
    """A turn pushes and takes; then it is applied to the disk, or dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.pushed: list[bytes] = []
        self.taken: list[bytes] = []

    @initialize(on_disk=st.lists(st.integers(0, 200), unique=True))
    def begin(self, on_disk: list[int]) -> None:
        for number in on_disk:
            self.disk.put(key_of(number))
        self.head = Head(PREFIX, b"u", self.disk.scan, on_disk=bool(on_disk))

    def expected(self) -> list[bytes]:
        return sorted((set(self.disk.keys) | set(self.pushed)) - set(self.taken))

    def peek(self) -> bytes | None:
        """Return the smallest key that still stands; hints of what was taken already may come up again."""
        while (key := self.head.peek()) is not None and key in self.taken:
            self.head.pop()
        return key

    @rule(number=st.integers(0, 200))
    def push(self, number: int) -> None:
        key = key_of(number)
        if key not in self.disk.keys and key not in self.pushed:
            self.pushed.append(key)
            self.head.push(key)

    @rule(count=st.integers(1, 12))
    def take(self, count: int) -> None:
        for _ in range(count):
            expected = self.expected()
            key = self.peek()
            assert key == (expected[0] if expected else None)
            if key is None:
                return
            self.head.pop()
            self.taken.append(key)

    @rule()
    def look(self) -> None:
        expected = self.expected()
        assert self.peek() == (expected[0] if expected else None)

    @rule()
    def apply(self) -> None:
        for key in self.pushed:
            self.disk.put(key)
        for key in self.taken:
            self.disk.delete(key)
        self.head.applied()
        self.pushed.clear()
        self.taken.clear()

    @precondition(lambda self: self.pushed or self.taken)
    @rule()
    def drop(self) -> None:
        self.pushed.clear()
        self.taken.clear()
        self.head.reset()

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "head") and not self.pushed and not self.taken:
            assert len(self.head._heap) <= head_module.SPILL_ABOVE + head_module.REFILL


@pytest.mark.usefixtures("small")
class TestModel(Model.TestCase):
    settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("order", ["rising", "falling", "random"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_50_000_keys_take_bounded_memory_in_any_order(order, on_disk):
    disk = Disk()
    head = Head(PREFIX, b"u", disk.scan, on_disk=on_disk)
    head.peek()
    numbers = list(range(50_000))
    if order == "falling":
        numbers.reverse()
    elif order == "random":
        random.Random(1).shuffle(numbers)
    for start in range(0, len(numbers), 500):
        for number in numbers[start : start + 500]:
            key = key_of(number)
            insort(disk.keys, key)
            head.push(key)
        head.applied()
        head.peek()
        assert len(head._heap) + len(head._fresh) <= 3_000
    for number in range(50_000):
        assert head.peek() == key_of(number)
        head.pop()
    assert head.peek() is None


def test_what_was_taken_is_never_scanned_again():
    disk = Disk()
    disk.keys = [key_of(number) for number in range(10_000)]
    head = Head(PREFIX, b"u", disk.scan, on_disk=True)
    for _ in range(10_000):
        head.peek()
        head.pop()
    assert head.peek() is None
    assert disk.read == 10_000
