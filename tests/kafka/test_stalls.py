"""Which inputs are stuck, by what successive looks saw."""

from scheduler.kafka.stable_ends import End
from scheduler.kafka.stalls import LOOKS, Stalls

A, B = ("jobs.submit.bulk", 0), ("jobs.commands", 1)


def looks(stalls, times, reached, end):
    return [stalls.look({A: reached}, {A: End(end, end)}) for _ in range(times)]


def test_an_input_that_stands_still_before_its_end_is_stuck_at_the_last_look_and_again_after_as_many():
    found = looks(Stalls(), 2 * LOOKS, 5, 9)
    assert found == ([[]] * (LOOKS - 1) + [[A]]) * 2


def test_one_that_is_read_to_its_end_is_not():
    assert not any(looks(Stalls(), 3 * LOOKS, 9, 9))


def test_one_that_moves_is_not_however_far_behind_it_is():
    stalls = Stalls()
    assert not any(stalls.look({A: at}, {A: End(1_000, 1_000)}) for at in range(3 * LOOKS))


def test_one_that_had_moved_counts_from_there():
    stalls = Stalls()
    assert not any(looks(stalls, LOOKS - 1, 5, 9))
    assert not any(looks(stalls, LOOKS - 1, 6, 9))
    assert looks(stalls, 1, 6, 9) == [[A]]


def test_a_look_without_an_answer_or_at_a_paused_input_begins_anew():
    for gap in (({A: 5}, {}), ({}, {A: End(9, 9)})):
        stalls = Stalls()
        looks(stalls, LOOKS - 1, 5, 9)
        assert stalls.look(*gap) == []
        assert not any(looks(stalls, LOOKS - 1, 5, 9))
        assert looks(stalls, 1, 5, 9) == [[A]]


def test_what_an_open_transaction_hides_is_not_unread_and_is_told_from_the_second_look_on():
    stalls = Stalls()
    hidden = []
    for _ in range(LOOKS + 1):
        assert stalls.look({A: 5, B: 3}, {A: End(5, 9), B: End(3, 3)}) == []
        hidden.append({place: found.records for place, found in stalls.hidden().items()})
    assert hidden == [{}] + [{A: 4}] * LOOKS


def test_transactions_that_come_and_go_hide_nothing():
    stalls = Stalls()
    for end in range(5, 15):
        stalls.look({A: end}, {A: End(end, end + 2)})
        assert stalls.hidden() == {}


def test_what_was_found_of_another_set_of_consumers_is_forgotten():
    stalls = Stalls()
    looks(stalls, LOOKS - 1, 5, 9)
    stalls.forget()
    assert not any(looks(stalls, LOOKS - 1, 5, 9))
    assert stalls.looks(A) == LOOKS - 1
    assert stalls.looks(B) == 0
