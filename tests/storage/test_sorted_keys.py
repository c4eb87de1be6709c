"""The index of the store in memory, beyond one bucket."""

import random

from scheduler.storage.sorted_keys import SortedKeys


def test_it_stays_sorted_through_splits_and_removals():
    draw = random.Random(1)
    keys, model = SortedKeys(), set()
    for _ in range(60_000):
        key = draw.randbytes(2)
        if key in model:
            keys.remove(key)
            model.discard(key)
        else:
            keys.add(key)
            model.add(key)
    assert keys.between(b"", b"\xff\xff\xff", 100_000) == sorted(model)
    for key in sorted(model):
        keys.remove(key)
    assert keys.between(b"", b"\xff\xff\xff", 10) == []


def test_removed_heads_do_not_hide_what_comes_back():
    keys = SortedKeys()
    for n in range(5_000):
        keys.add(b"%05d" % n)
    for n in range(2_000):
        keys.remove(b"%05d" % n)
    keys.add(b"00000")
    assert keys.between(b"", b"00001", 5) == [b"00000"]
    assert keys.between(b"00001", b"99999", 1) == [b"02000"]
