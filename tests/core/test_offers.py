"""Offers: how long they live, what replaces them, and that reading twice changes nothing."""

from scheduler.core.offers import Free, Offers
from scheduler.core.reports import Freed, Offer, Sender

LIFE_MS = 5_000
ME = Sender("w", b"1" * 16, "default", 0)
OTHER = Sender("w", b"2" * 16, "default", 1)


def offers() -> Offers:
    return Offers(LIFE_MS)


def offer(sequence: int = 1, slots: int = 1, sender: Sender = ME, lowest_band: int = 2) -> Offer:
    return Offer(sender, sequence, slots, lowest_band)


def standing(known: Offers, pool: str = "default") -> list[Free]:
    if pool not in known.pools:
        return []
    return [free for line in known.pools[pool].lines for free in line if free.slots > 0]


def slots(known: Offers) -> int:
    return sum(free.slots for free in standing(known))


def test_an_offer_lives_five_seconds_from_when_it_was_read():
    known = offers()
    known.add(offer(slots=3), 0, 100)
    known.expire(100 + LIFE_MS - 1)
    assert slots(known) == 3
    known.expire(100 + LIFE_MS)
    assert slots(known) == 0


def test_reading_an_offer_again_changes_nothing():
    known = offers()
    known.add(offer(slots=3), 0, 100)
    known.take(standing(known)[0])
    known.settle()
    known.add(offer(slots=3), 0, 200)
    assert slots(known) == 2
    known.expire(100 + LIFE_MS)
    assert slots(known) == 0


def test_reading_a_freed_slot_again_changes_nothing():
    known = offers()
    known.add_freed(ME, Freed(7), 0, 100)
    known.take(standing(known)[0])
    known.settle()
    known.add_freed(ME, Freed(7), 0, 200)
    assert slots(known) == 0


def test_a_higher_sequence_replaces_older_plain_offers_of_that_worker_whatever_shard_they_came_through():
    known = offers()
    known.add(offer(1, slots=2), 0, 0)
    known.add(offer(1, slots=2), 1, 0)  # one offer in several records
    known.add(offer(1, slots=5, sender=OTHER), 0, 0)
    assert slots(known) == 9
    known.add(offer(2, slots=1), 3, 10)
    assert slots(known) == 6


def test_a_lower_sequence_that_comes_late_is_nothing():
    known = offers()
    known.add(offer(2, slots=1), 0, 0)
    known.add(offer(1, slots=9), 1, 10)
    assert slots(known) == 1


def test_a_freed_slot_stands_beside_plain_offers():
    known = offers()
    known.add(offer(1, slots=2), 0, 0)
    known.add_freed(ME, Freed(2), 0, 0)
    known.add(offer(3, slots=1), 0, 10)
    assert slots(known) == 2  # the freed one, and the plain one that replaced two


def test_slots_for_few_bands_stand_before_others():
    known = offers()
    for sequence, lowest_band in enumerate((2, 1, 0, 1)):
        known.add_freed(ME, Freed(sequence, lowest_band), 0, 0)
    assert [free.lowest_band for free in standing(known)] == [0, 1, 1, 2]


def test_slots_of_a_dropped_turn_are_given_back():
    known = offers()
    known.add(offer(slots=2), 0, 0)
    known.add_freed(ME, Freed(2), 0, 0)
    first, second = standing(known)
    for free in (first, first, second):
        known.take(free)
        if free.slots == 0:
            known.pools["default"].line_for(free).remove(free)  # as the granting loop does
    assert slots(known) == 0
    known.give_back()
    assert slots(known) == 3
    assert len(standing(known)) == 2  # each stands once


def test_what_is_settled_is_not_given_back():
    known = offers()
    known.add(offer(slots=2), 0, 0)
    known.take(standing(known)[0])
    known.settle()
    known.give_back()
    assert slots(known) == 1


def test_an_offer_that_gave_its_suspect_slot_in_a_dropped_turn_takes_one_again():
    known = offers()
    known.add(Offer(ME, 1, 3, takes_suspect=True), 0, 0)
    (free,) = standing(known)
    known.take(free, suspect=True)
    assert not free.takes_suspect
    known.give_back()
    assert free.takes_suspect


def test_workers_that_offer_again_and_again_without_work_take_bounded_memory():
    known = offers()
    for second in range(2_000):
        for number in range(5):
            sender = Sender("w", bytes([number]) * 16, "default", 0)
            known.add(offer(second + 1, slots=4, sender=sender), number, second * 1_000)
            known.add_freed(sender, Freed(second + 1), number + 10, second * 1_000)
        known.expire(second * 1_000)
    assert sum(len(line) for line in known.pools["default"].lines) < 200
    assert len(known._known) < 200
    known.expire(10**9)
    assert not known._known
    assert not known._plain
    assert not known._latest
    assert not known.pools


def test_names_of_pools_do_not_gather():
    known = offers()
    for number in range(1_000):
        sender = Sender("w", number.to_bytes(16, "big"), f"forged-{number}", 0)
        known.add(offer(1, slots=4, sender=sender), 0, number * 100)
        known.expire(number * 100)
    assert len(known.pools) < 60
