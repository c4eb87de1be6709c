"""Leaders' epochs go with the positions, from owner to owner."""

from scheduler.codec.meta import decode_meta
from scheduler.core import keyspace
from scheduler.core.inputs import INPUT_OF, TOPIC_OF, Input

SUBMIT = Input.SUBMIT_DEFAULT


def metas(world, shard, owner):
    entries = (stored for _, stored in world.broker.read("changelog", shard, 0))
    all_of_them = [decode_meta(entry.value) for entry in entries if entry.key == keyspace.META]
    return [meta for meta in all_of_them if meta.owner == owner]


def test_what_the_log_says_of_them_is_kept_in_meta(world, d1):
    home = world.home("a")
    assert world.meta(home).leader_epochs == {}
    d1.log.epochs = {(home, SUBMIT): 4, (home, Input.REPORTS): 7}
    world.submit("a")
    world.turn(2)
    assert world.meta(home).leader_epochs == {TOPIC_OF[SUBMIT]: 4, "reports": 7}


def test_whoever_takes_over_reads_on_with_them_and_keeps_them_until_then(world, d1):
    home = world.home("a")
    d1.log.epochs = {(home, SUBMIT): 4}
    world.submit("a")
    world.turn(2)
    world.kill("d1")
    d2 = world.start("d2")
    assert d2.log.followed[home] == {SUBMIT: 4}
    claim = metas(world, home, "d2")[0]
    assert claim.leader_epochs == {TOPIC_OF[SUBMIT]: 4}
    assert claim.positions[TOPIC_OF[SUBMIT]] == 1


def test_they_are_asked_for_the_positions_that_are_committed(world, d1):
    asked = []
    d1.log.leader_epochs = lambda shard, offsets: asked.append((shard, dict(offsets))) or {}
    home = world.home("a")
    world.submit("a")
    world.turn(2)
    last = {INPUT_OF[topic]: offset for topic, offset in world.meta(home).positions.items()}
    assert (home, last) in asked
