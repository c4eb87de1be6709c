"""Records that landed elsewhere, that have no id, or that nobody can read."""

import pytest

from scheduler.codec.commands import encode_command
from scheduler.codec.job import decode_job, encode_job
from scheduler.codec.reports import encode_report
from scheduler.codec.retry import encode_retry
from scheduler.core import keys
from scheduler.core.outputs import Forward, RetryRecord
from scheduler.core.reports import Offer
from scheduler.core.spec import Band
from tests.dispatcher.world import World

BAD = {
    "null": (None, "empty"),
    "empty": (b"", "empty"),
    "short": (b"\xc3\x01\x00", "framing"),
    "magic": (b"\x01\x02 plain text", "framing"),
    "registry": (b"\x00\x00\x00\x00\x07rest of it", "framing"),
    "fingerprint": (b"\xc3\x01" + b"\x00" * 8 + b"body", "schema_unknown"),
}
TOPICS = (
    "reports",
    "commands",
    "submit.interactive",
    "submit.default",
    "submit.bulk",
    "retry.5s",
    "retry.30m",
)


# -- what can't be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", TOPICS)
def test_what_cannot_be_read_is_quarantined_and_stops_nothing(world, worker, topic):
    offsets = []
    for value, _ in BAD.values():
        offsets.append(world.broker.append(topic, 1, b"\xff\xfe key", value, at_ms=world.time.ms))
    worker.offer()
    world.submit("good")
    world.turn(3)
    world.wait(31 * 60_000, every_ms=30_000)  # retry records are handed on when they are due
    dead = world.dead_letters()
    assert [one["refusal"] for one in dead] == [refusal for _, refusal in BAD.values()]
    for offset, headers, stored in zip(offsets, dead, world.records("dlq"), strict=True):
        assert headers["reason"] == "quarantined"
        assert headers["source_topic"] == f"jobs.{topic}"
        assert (headers["source_partition"], headers["source_offset"]) == ("1", str(offset))
        assert stored.value == (list(BAD.values())[offset - offsets[0]][0] or b"")
        assert stored.key == b"\xff\xfe key"
    assert len(worker.leases()) == 1
    assert world.counts["refused", "empty"] == 2
    assert world.meta(1).positions[topic] > offsets[-1]


def test_truncated_and_trailing_bytes_are_told_apart(world):
    value = encode_job(world.spec("a"))
    world.publish(value[:-3])
    world.publish(value + b"0123456789")
    world.publish(value.replace(b"x.run", b"\xff\xfe\xfd\xfc\xfb"))
    world.turn(2)
    assert [one["refusal"] for one in world.dead_letters()] == [
        "undecodable",
        "trailing_bytes",
        "undecodable",
    ]


def test_a_job_beyond_its_bounds_is_quarantined_with_every_fault_but_no_payload(world):
    world.submit("a", priority=10, timeout_ms=1, payload=b"SECRET-MARKER")
    world.turn(2)
    (dead,) = world.dead_letters()
    assert dead["refusal"] == "out_of_bounds"
    assert "/priority" in dead["detail"]
    assert "/timeout_ms" in dead["detail"]
    assert not any("SECRET" in value for value in dead.values())
    assert decode_job(world.records("dlq")[0].value).payload == b"SECRET-MARKER"


def test_a_record_of_another_kind_is_refused_where_it_does_not_belong(world, worker):
    world.publish(encode_report(Offer(worker.sender, 1, 1)))
    world.broker.append("reports", 0, None, encode_job(world.spec("a")), at_ms=world.time.ms)
    world.turn(2)
    assert [one["refusal"] for one in world.dead_letters()] == ["schema_not_allowed"] * 2


def test_requests_are_refused_as_not_served(world):
    world.broker.append("requests", 0, b"a", b"anything", at_ms=world.time.ms)
    world.turn(2)
    assert [one["refusal"] for one in world.dead_letters()] == ["unsupported"]


# -- ids -----------------------------------------------------------------------------------------------------


def test_a_missing_id_is_derived_from_the_coordinates(world):
    for shard in range(world.shards):
        world.submit("", shard=shard, payload=b"%d" % shard)
    world.turn(3)
    expected = {keys.id_from_coordinates("jobs.submit.default", shard, 0) for shard in range(world.shards)}
    assert set(world.states()) == expected


def test_the_stored_record_names_the_derived_id(world, d1):
    world.submit("", shard=0)
    world.turn(3)
    job_id = keys.id_from_coordinates("jobs.submit.default", 0, 0)
    shard = d1.engine.seats[world.home(job_id)].shard
    assert decode_job(shard.raw_spec(job_id)).job_id == job_id


def test_a_missing_id_with_a_key_is_derived_from_the_key(world):
    job_id = keys.id_from_key("t", "order-17")
    for _ in range(2):  # the second is a repeat, wherever it lands
        world.submit("", idempotency_key="order-17", shard=world.home(job_id))
    world.submit("", idempotency_key="order-17", shard=(world.home(job_id) + 1) % world.shards)
    world.turn(3)
    assert set(world.states()) == {job_id}
    assert world.states()[job_id].admitted.has_key
    assert world.counts["repeated",] == 2
    assert world.dead_letters() == []


def test_an_id_that_is_not_its_keys_is_refused(world):
    world.submit("mine", idempotency_key="order-17")
    world.turn(2)
    assert [one["refusal"] for one in world.dead_letters()] == ["out_of_bounds"]


def test_one_key_of_two_tenants_makes_two_jobs(world):
    for tenant in ("one", "other"):
        job_id = keys.id_from_key(tenant, "k")
        world.submit(job_id, tenant=tenant, idempotency_key="k")
    world.turn(2)
    assert len(world.states()) == 2


# -- landed elsewhere -----------------------------------------------------------------------------------------


def test_a_record_in_the_wrong_partition_is_admitted_at_home_only(world, worker):
    home = world.home("a")
    worker.offer()
    world.submit("a", shard=(home + 1) % world.shards, band=Band.BULK)
    world.turn()
    # Both shards are held here: it goes over in memory, in the same turn.
    assert world.records("commands") == []
    state = world.state("a")
    assert (state.admitted.band, state.admitted.submitted_at_ms) == (Band.BULK, world.time.ms - 5)
    assert len(worker.leases()) == 1
    assert world.counts["forwarded",] == 1


def test_a_repeat_in_the_wrong_partition_is_a_repeat(world):
    home = world.home("a")
    world.submit("a")
    world.submit("a", shard=(home + 1) % world.shards)
    world.turn(2)
    assert world.counts["repeated",] == 1


def test_a_record_for_a_foreign_shard_goes_over_kafka_in_the_same_transaction():
    world = World()
    home = world.home("a")
    elsewhere = (home + 1) % world.shards
    world.start("d1", shards=[shard for shard in range(world.shards) if shard != home])
    world.submit("a", shard=elsewhere)
    world.turn(2)
    (_command,) = world.records("commands")
    assert len(list(world.broker.read("commands", home, 0))) == 1
    assert world.meta(elsewhere).positions["submit.default"] == 1
    assert "a" not in world.states()
    world.start("d2", shards=[home])
    world.turn(2)
    state = world.state("a")
    assert (state.phase, state.admitted.offset) == ("ready", 0)
    world.finish()


def test_a_conflict_of_a_forwarded_record_names_where_it_was_published(world):
    home = world.home("a")
    elsewhere = (home + 1) % world.shards
    world.submit("a", payload=b"1")
    world.turn(2)
    world.submit("a", payload=b"2", shard=elsewhere)
    world.turn(2)
    (told,) = world.lifecycle()
    assert told.source == f"jobs.submit.default/{elsewhere}@0"


def test_a_forwarded_command_that_holds_rubbish_is_quarantined(world):
    command = Forward(1, b"rubbish", "jobs.submit.default", 1, 7, world.time.ms)
    world.broker.append("commands", 0, None, encode_command(command), at_ms=world.time.ms)
    world.turn(2)
    (dead,) = world.dead_letters()
    assert dead["refusal"] == "framing"


def test_a_forwarded_record_for_a_third_shard_goes_on(world):
    home = world.home("a")
    command = Forward(1, encode_job(world.spec("a")), "jobs.submit.default", 1, 7, world.time.ms)
    world.broker.append(
        "commands", (home + 1) % world.shards, None, encode_command(command), at_ms=world.time.ms
    )
    world.turn(3)
    assert world.state("a").phase == "ready"


def test_a_forwarded_record_without_an_id_is_refused_and_not_admitted_under_an_empty_one(world):
    command = Forward(1, encode_job(world.spec("")), "job:b", 1, 7, world.time.ms)
    home = keys.shard_of("", world.shards)
    world.broker.append("commands", home, None, encode_command(command), at_ms=world.time.ms)
    world.turn(2)
    assert "" not in world.states()
    assert [one["refusal"] for one in world.dead_letters()] == ["out_of_bounds"]


def test_a_retry_record_of_an_unknown_job_is_ignored(world):
    record = RetryRecord("nobody", 3, world.time.ms)
    world.broker.append("retry.5s", 0, b"nobody", encode_retry(record), at_ms=world.time.ms)
    world.wait(8_000)
    assert world.counts["retry_records_ignored",] == 1
    assert world.states() == {}
