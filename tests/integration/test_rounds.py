"""Dispatchers come and go under load: a change of the group costs less than two rounds, and no job notices.

A *change* is one dispatcher that joins, leaves or dies. A *round* is one generation of the group: its coordinator numbers
a new one each time that it has gathered the members. To move a shard between living members takes two of them, since
it is taken from the one in the first and given to the other in the second; shards that nobody holds take one; changes
that meet share theirs. Members that can't settle show by more: others' clients took seven or eight for one departure.
"""

import time

import pytest

from tests.integration.traffic import said, traffic_on

SHARDS = 24  # as many for each of 1, 4, 2 and 6
RATE = 150
STAGGER_S = 0.010
SETTLE_S = 90.0  # a bound for a group that hangs
ROUNDS_A_CHANGE = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Group:
    """The dispatchers of a site: those that are there, and all that ever were."""

    def __init__(self, traffic):
        self._traffic = traffic
        self._members = []
        self.all = []
        self.changes = 0
        self.rounds = []  # the last one's number, each time that the shards were shared

    def become(self, count):
        """Start or stop dispatchers, one soon after the other, until so many are left."""
        while len(self._members) < count:
            process = self._traffic.site.dispatcher(f"dispatcher-{len(self.all)}")
            self._members.append(process)
            self.all.append(process)
            self._changed()
        while len(self._members) > count:
            self._members.pop(0).terminate()
            self._changed()
        self._settle()

    def lose_one(self):
        """Kill one with SIGKILL: its session runs out."""
        self._members.pop(0).kill()
        self._changed()
        self._settle()

    def _changed(self):
        self.changes += 1
        time.sleep(STAGGER_S)  # so that changes meet: this is the story

    def _settle(self):
        self._traffic.until(
            lambda: self._traffic.shared_by(self._members), SETTLE_S, f"{len(self._members)} share the shards"
        )
        self.rounds.append(self._traffic.generations.latest())


def test_a_change_of_the_group_costs_less_than_two_rounds_and_no_job_notices(kafka):
    with traffic_on(kafka, shards=SHARDS, rate=RATE) as traffic:
        group = Group(traffic)
        group.become(1)
        group.changes = 0
        for count in (4, 2, 6):
            group.become(count)
        group.lose_one()
        traffic.until_done(SETTLE_S)
        rounds = group.rounds[-1] - group.rounds[0]
        assert group.rounds == sorted(set(group.rounds)), "each settling took one round at least"
        assert rounds < ROUNDS_A_CHANGE * group.changes, (group.rounds, group.changes, traffic.logs())
        assert_no_commit_but_as_a_member(group.all, rounds)
        traffic.assert_each_job_once()


def assert_no_commit_but_as_a_member(dispatchers, rounds):
    """Check what the coordinator refused.

    A member takes part in the next round in the background, and a commit may be under way when that round gets its
    number: it is refused, and tried again under the new number. So each member has one refused a round at most, and
    always as one whom the coordinator knows: nobody who is no member even tries.
    """
    for dispatcher in dispatchers:
        refused = said(
            dispatcher, r"transaction aborted: .*(ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID|no member of)"
        )
        assert set(refused) <= {"ILLEGAL_GENERATION"}, dispatcher.log.read_text()
        assert len(refused) <= rounds, dispatcher.log.read_text()
