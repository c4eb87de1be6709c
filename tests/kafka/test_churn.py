"""Members come and go, inputs are paused and resumed at random: every input is read on, without a gap or a repeat."""

import itertools
import random
import time

from scheduler.core.inputs import Input
from tests.kafka.seen import Seen, at, produce, topic_of

SOURCES = (Input.REPORTS, Input.SUBMIT_DEFAULT, Input.SUBMIT_BULK, Input.RETRY_5S)
ROUNDS = 12
EACH = 20
PATIENCE_S = 60.0
"""A bound for a group that hangs: a session that has to run out takes six seconds, and a rebalance after it."""


class Group:
    """Members that go on from common positions, as dispatchers do from `meta`."""

    def __init__(self, open_log) -> None:
        self._open = open_log
        self._names = itertools.count()
        self.members: list[Seen] = []
        self.positions: dict[tuple[int, Input], int] = {}
        self._paused: set[tuple[int, Input]] = set()

    def join(self) -> None:
        self.members.append(Seen(self._open(f"m{next(self._names)}")))

    def leave(self, member: Seen) -> None:
        self.members.remove(member)
        member.log.close()

    def poll(self) -> None:
        for member in self.members:
            polled = member.poll(1)
            for shard in polled.lost:
                self._paused -= {(shard, source) for source in Input}
            for shard in polled.gained:
                wanted = {source: self.positions.get((shard, source), 0) for source in SOURCES}
                member.log.follow(shard, {**at(0), **wanted})
            for record in polled.records:
                place = (record.shard, record.input)
                assert record.offset == self.positions.get(place, 0), "a gap, a repeat, or another owner's"
                self.positions[place] = record.offset + 1

    def upset(self, chance: random.Random) -> None:
        """Pause or resume some input of each member."""
        for member in self.members:
            for shard in member.owned:
                place = (shard, chance.choice(SOURCES))
                if place in self._paused:
                    self._resume(member, place)
                else:
                    member.log.pause(*place)
                    self._paused.add(place)

    def calm(self) -> None:
        for member in self.members:
            for place in [place for place in self._paused if place[0] in member.owned]:
                self._resume(member, place)

    def _resume(self, member: Seen, place: tuple[int, Input]) -> None:
        self._paused.discard(place)
        member.log.resume(*place, self.positions.get(place, 0))


def test_whatever_was_paused_or_moved_is_read_to_its_end(open_log, properties, installed):
    chance = random.Random(8)
    group = Group(open_log)
    group.join()
    for number in range(1, ROUNDS + 1):
        for shard in range(4):
            for source in SOURCES:
                produce(properties, topic_of(installed, source), shard, [b"k"] * EACH)
        if len(group.members) < 2 or (len(group.members) < 4 and chance.random() < 0.6):
            group.join()
        else:
            group.leave(chance.choice(group.members))
        for _ in range(25):
            group.poll()
            group.upset(chance)
        assert len(group.positions) <= 4 * len(SOURCES), number
    group.calm()
    whole = {(shard, source): ROUNDS * EACH for shard in range(4) for source in SOURCES}
    until = time.monotonic() + PATIENCE_S
    while group.positions != whole and time.monotonic() < until:
        group.poll()
        group.calm()
    assert group.positions == whole
