"""Turns that fail by their own doing: the one input at fault is found and quarantined, everything else goes on."""

import pytest

from scheduler.codec.job import decode_job
from scheduler.core import keyspace
from scheduler.core.inputs import Input
from scheduler.core.spec import Band
from tests.dispatcher.lives import grant, run
from tests.dispatcher.world import World


def refuse_spec(d1, job_id: str) -> None:
    """The broker refuses the job's record in the changelog, as one that is too large."""
    key = keyspace.spec_key(job_id)
    d1.log.refused = lambda record: record.topic == "changelog" and record.key == key


def crash_at(d1, offset_of: tuple[int, Input, int]) -> None:
    """Deciding crashes at one record."""
    take = d1.engine._intake.take

    def crashing(shard, moment, record):
        if (record.shard, record.input, record.offset) == offset_of:
            shard.changes.counts["half done",] += 1
            raise ZeroDivisionError
        return take(shard, moment, record)

    d1.engine._intake.take = crashing


def quarantined(world: World) -> list[tuple[str, str, str]]:
    return [(one["refusal"], one["source_topic"], one["source_offset"]) for one in world.dead_letters()]


# -- refused by the broker ------------------------------------------------------------------------------------


def test_a_submit_whose_record_the_broker_refuses_is_quarantined_and_the_others_go_on(world, d1):
    refuse_spec(d1, "bad")
    for number in range(30):
        world.submit(f"job-{number}")
    offset = world.publish(world_value(world, "bad"), "bad")
    world.turn(80)
    assert quarantined(world) == [("crashed_dispatcher", "jobs.submit.default", str(offset))]
    assert len(world.states()) == 30
    assert {state.phase for state in world.states().values()} == {"ready"}
    assert world.meta(world.home("bad")).positions["submit.default"] == offset + 1
    assert d1.signals.failures["abort"] == 3  # twice together, once alone


def world_value(world: World, job_id: str) -> bytes:
    from scheduler.codec.job import encode_job

    return encode_job(world.spec(job_id))


def test_its_record_is_kept_in_the_dead_letter_topic(world, d1):
    refuse_spec(d1, "bad")
    world.submit("bad", payload=b"what it was")
    world.turn(20)
    (stored,) = world.records("dlq")
    assert decode_job(stored.value).payload == b"what it was"


def test_the_dispatcher_is_back_at_full_speed_after_the_culprit(world, d1):
    refuse_spec(d1, "bad")
    for number in range(30):
        world.submit(f"job-{number}")
    world.submit("bad")
    world.turn(80)
    for number in range(100):
        world.submit(f"more-{number}")
    world.turn(2)
    assert len(world.states()) == 130


def test_beats_and_offers_among_the_suspected_do_not_keep_it_slow(world, d1, worker):
    # They commit nothing, and count as passed all the same.
    lease = run(world, worker)
    refuse_spec(d1, "bad")
    for _ in range(40):
        worker.beat(lease)
        worker.offer(0)
    world.submit("bad")
    world.turn(120)
    assert len(world.dead_letters()) == 1
    for number in range(100):
        world.submit(f"more-{number}")
    world.turn(2)
    assert sum(job_id.startswith("more") for job_id in world.states()) == 100


def test_a_culprit_is_found_although_others_commit_in_between(world, d1):
    # After a rewind the inputs come back one after the other; those that are fine commit before it fails again.
    refuse_spec(d1, "bad")
    world.submit("bad", band=Band.BULK)
    for number in range(20):
        world.submit(f"job-{number}")
    for _ in range(40):
        d1.log.read_at_most = 3
        world.submit(f"more-{world.time.ms}")
        world.turn(2)
    assert [dead["refusal"] for dead in world.dead_letters()] == ["crashed_dispatcher"]


def test_a_culprit_alone_in_its_turn_needs_only_two_tries(world, d1):
    refuse_spec(d1, "bad")
    world.submit("bad")
    world.turn(20)
    assert d1.signals.failures["abort"] == 2


def test_two_culprits_are_both_found(world, d1):
    keys = {keyspace.spec_key("bad"), keyspace.spec_key("worse")}
    d1.log.refused = lambda record: record.topic == "changelog" and record.key in keys
    for number in range(10):
        world.submit(f"job-{number}")
    world.submit("bad")
    world.submit("worse")
    world.turn(80)
    assert len(world.dead_letters()) == 2
    assert len(world.states()) == 10


def test_a_dead_letter_that_is_itself_refused_goes_by_reference(world, d1):
    # Its bytes fit nowhere: what is left is where to find it, and the input goes on.
    d1.log.refused = lambda record: record.topic == "dlq" and bool(record.value)
    world.publish(b"rubbish")
    world.submit("a")
    world.turn(30)
    assert world.state("a").phase == "ready"
    (dead,) = world.dead_letters()
    assert (dead["source_topic"], dead["source_offset"]) == ("jobs.submit.default", "0")
    assert world.records("dlq")[0].value == b""


def test_aborts_without_a_refused_record_blame_nobody(world, d1):
    from tests.dispatcher.fault_log import abort

    for _ in range(20):
        d1.log.fail("commit", abort)
    world.submit("a")
    world.turn(40)
    assert world.dead_letters() == []
    assert world.state("a").phase == "ready"


# -- crashes in deciding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("band", list(Band))
def test_an_input_that_crashes_the_handler_is_quarantined_and_the_others_are_not_affected(
    world, d1, worker, band
):
    lease = run(world, worker)
    for number in range(5):
        world.submit(f"job-{number}", band=band)
    offset = world.publish(world_value(world, "bad"), "bad", band=band)
    source = {
        Band.INTERACTIVE: Input.SUBMIT_INTERACTIVE,
        Band.DEFAULT: Input.SUBMIT_DEFAULT,
        Band.BULK: Input.SUBMIT_BULK,
    }
    crash_at(d1, (world.home("bad"), source[band], offset))
    for number in range(5, 10):
        world.submit(f"job-{number}", band=band)
    worker.beat(lease)
    world.turn(8)
    topic = f"jobs.submit.{band.name.lower()}"
    assert quarantined(world) == [("crashed_dispatcher", topic, str(offset))]
    assert set(world.states()) == {"a", *(f"job-{n}" for n in range(10))}
    assert world.state("a").phase == "leased"
    assert world.counts["half done",] == 0


def test_a_report_that_crashes_the_handler_is_quarantined(world, d1, worker):
    lease = grant(world, worker)
    offset = len(world.broker.log("reports", lease.shard))
    crash_at(d1, (lease.shard, Input.REPORTS, offset))
    worker.fail(lease)
    worker.done(lease)
    world.turn(6)
    assert quarantined(world) == [("crashed_dispatcher", "jobs.reports", str(offset))]
    assert world.state().phase == "succeeded"


def test_a_retry_record_that_crashes_the_handler_is_quarantined(world, d1, worker):
    from scheduler.core.reports import ReleaseReason

    lease = grant(world, worker)
    worker.release(lease, ReleaseReason.SNOOZED, delay_ms=5_000)
    world.turn(2)
    retry = d1.engine._intake.retry
    d1.engine._intake.retry = lambda *args: (_ for _ in ()).throw(ZeroDivisionError)
    world.wait(5_500)
    d1.engine._intake.retry = retry
    world.turn(3)
    assert [topic for _, topic, _ in quarantined(world)] == ["jobs.retry.5s"]
    world.wait(70_000)
    assert world.state().phase == "ready"  # the state is the truth
    assert world.counts["retry_records_missed",] == 1


def test_what_was_quarantined_is_so_after_a_take_over_too(world, d1):
    offset = world.publish(world_value(world, "bad"), "bad")
    crash_at(d1, (world.home("bad"), Input.SUBMIT_DEFAULT, offset))
    world.turn(6)
    world.kill("d1")
    world.start("d2")
    world.turn(5)
    assert len(world.dead_letters()) == 1
    assert "bad" not in world.states()
