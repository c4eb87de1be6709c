"""Who is suspected after failed turns, by coordinates."""

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Record
from scheduler.dispatcher.suspicion import Suspicion


def record(offset: int, shard: int = 0, source: Input = Input.SUBMIT_DEFAULT) -> Record:
    return Record(source, shard, offset, 0, None, None)


GOOD, BAD, OTHER = record(1), record(2), record(1, shard=1)
USUAL = 100


def test_one_failure_changes_nothing():
    suspicion = Suspicion()
    suspicion.failed([GOOD, BAD])
    assert suspicion.turn_limit(USUAL) == USUAL
    assert not suspicion.is_condemned(BAD)


def test_inputs_that_fail_twice_are_taken_one_by_one_and_the_one_that_fails_alone_is_condemned():
    suspicion = Suspicion()
    suspicion.failed([GOOD, BAD])
    suspicion.failed([GOOD, BAD])
    assert suspicion.turn_limit(USUAL) == 1
    suspicion.passed([GOOD])
    suspicion.failed([BAD])
    assert suspicion.is_condemned(BAD)
    assert not suspicion.is_condemned(GOOD)
    suspicion.passed([BAD])
    assert suspicion.turn_limit(USUAL) == USUAL
    assert not suspicion.is_condemned(BAD)


def test_other_inputs_that_fail_are_no_second_failure():
    suspicion = Suspicion()
    suspicion.failed([GOOD, BAD])
    suspicion.failed([OTHER, record(9)])
    assert suspicion.turn_limit(USUAL) == USUAL


def test_others_that_pass_in_between_clear_only_themselves():
    suspicion = Suspicion()
    suspicion.failed([GOOD, BAD])
    suspicion.passed([GOOD, OTHER])
    suspicion.failed([BAD, OTHER])
    assert suspicion.turn_limit(USUAL) == 1


def test_an_input_that_failed_in_company_and_then_alone_is_condemned():
    suspicion = Suspicion()
    suspicion.failed([GOOD, BAD])
    suspicion.failed([BAD])
    assert suspicion.is_condemned(BAD)


def test_a_condemned_one_that_fails_again_is_unfit():
    suspicion = Suspicion()
    for _ in range(2):
        suspicion.failed([BAD])
    assert suspicion.is_condemned(BAD)
    assert not suspicion.is_unfit(BAD)
    suspicion.failed([BAD])
    assert suspicion.is_unfit(BAD)


def test_a_shard_that_is_gone_holds_nobody_back():
    suspicion = Suspicion()
    for _ in range(2):
        suspicion.failed([GOOD, BAD])
    suspicion.blame(OTHER)
    suspicion.forget(0)
    assert suspicion.turn_limit(USUAL) == USUAL
    assert suspicion.is_condemned(OTHER)


def test_a_turn_without_inputs_blames_nobody():
    suspicion = Suspicion()
    for _ in range(5):
        suspicion.failed([])
    assert suspicion.turn_limit(USUAL) == USUAL


def test_offsets_of_different_inputs_are_told_apart():
    suspicion = Suspicion()
    suspicion.blame(record(2, source=Input.REPORTS))
    assert not suspicion.is_condemned(BAD)
