"""Which slots are offered where, and when again."""

from collections import Counter

import pytest

from scheduler.core.murmur2 import murmur2
from scheduler.core.reports import Done, Offer, Verdict
from scheduler.core.timing import Timing
from scheduler.worker.actions import Failed, Snoozed
from scheduler.worker.offers import OfferBook
from tests.worker.play import BOOT_ID, Play


def slots(play: Play, *, lowest_band: int = 2) -> int:
    return sum(offer.slots for offer in play.reports(Offer) if offer.lowest_band == lowest_band)


def test_the_first_round_goes_to_four_partitions_from_the_boot_ids_own():
    play = Play(slots=8)
    assert [offer.slots for offer in play.reports(Offer)] == [2, 2, 2, 2]
    partitions = play.partitions(Offer)
    assert partitions[0] == murmur2(BOOT_ID) % 8
    assert len(set(partitions)) == 4


def test_every_owner_of_a_range_of_partitions_sees_some():
    for shards in (8, 32, 64):
        partitions = Play(slots=8, shards=shards).partitions(Offer)
        assert {partition * 2 // shards for partition in partitions} == {0, 1}, shards


@pytest.mark.parametrize(
    ("count", "records"), [(1, [1]), (2, [1, 1]), (3, [1, 1, 1]), (5, [2, 1, 1, 1]), (9, [3, 2, 2, 2])]
)
def test_slots_are_spread_evenly(count, records):
    assert [offer.slots for offer in Play(slots=count).reports(Offer)] == records


def test_the_records_of_a_round_share_their_sequence_and_never_a_partition():
    play = Play(slots=8, reserved=2)
    assert len({offer.sequence for offer in play.reports(Offer)}) == 1
    assert len(set(play.partitions(Offer))) == len(play.partitions(Offer))


def test_slots_that_nobody_answered_are_offered_again_elsewhere_under_a_higher_sequence():
    play = Play(slots=3)
    first = play.reports(Offer)
    play.pass_ms(3_999)
    assert len(play.reports(Offer)) == 3
    play.pass_ms(1)
    again = play.reports(Offer)[3:]
    assert sum(offer.slots for offer in again) == 3
    assert min(offer.sequence for offer in again) > first[0].sequence
    assert play.partitions(Offer)[3:] != play.partitions(Offer)[:3]


def test_repeated_rounds_visit_every_partition():
    play = Play(slots=1)
    play.pass_ms(4_000 * 8)
    assert set(play.partitions(Offer)) == set(range(8))


def test_only_unanswered_slots_are_offered_again():
    play = Play(slots=3)
    play.lease()
    play.sent.clear()
    play.pass_ms(4_000)
    assert slots(play) == 2


def test_a_busy_worker_offers_nothing():
    play = Play(slots=1)
    play.lease()
    play.sent.clear()
    play.pass_ms(30_000)
    assert not play.reports(Offer)


# -- completions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [None, Failed(Verdict.RETRY), Snoozed(1)])
def test_a_report_that_ends_a_run_offers_its_slot_to_the_same_partition(outcome):
    play = Play(slots=1)
    play.finish(play.lease(shard=6), outcome)
    (end,) = play.ends()
    assert end.freed is not None
    assert end.freed.sequence > play.reports(Offer)[0].sequence
    assert play.lease("next", 2, offer=end.freed.sequence)


def test_a_freed_slot_that_nobody_answered_is_offered_again():
    play = Play(slots=1)
    play.finish(play.lease())
    play.sent.clear()
    play.pass_ms(4_000)
    assert slots(play) == 1


def test_every_eighth_freed_slot_goes_to_the_next_partition_in_turn():
    play = Play(slots=1)
    offer, plain = play.offer().sequence, len(play.reports(Offer))
    moved = []
    for n in range(24):
        play.finish(play.lease(f"j{n}", n + 1, offer=offer))
        freed = play.reports(Done)[-1].freed
        moved.append(freed is None)
        offer = freed.sequence if freed else play.offer().sequence
    assert moved == [False] * 7 + [True] + [False] * 7 + [True] + [False] * 7 + [True]
    assert len(play.reports(Offer)) == plain + 3
    assert len(set(play.partitions(Offer))) == 4


def test_a_slot_that_moves_joins_the_round_that_stands_instead_of_replacing_it():
    """A higher sequence would take away, at the same dispatcher, the slots that stand in the older round."""
    play = Play(slots=3)
    standing = play.offer().sequence
    offer = standing
    for n in range(8):
        play.finish(play.lease(f"j{n}", n + 1, offer=offer))
        freed = play.reports(Done)[-1].freed
        offer = freed.sequence if freed else standing
    assert play.offer().sequence == standing
    assert len(set(play.partitions(Offer))) == len(play.partitions(Offer))


def test_a_slot_whose_child_is_gone_is_offered_only_when_another_is_ready():
    play = Play(slots=1)
    run = play.lease()
    play.do(play.session.on_capacity(0, play.now))
    play.gone(run)
    assert play.ends()[0].freed is None
    play.sent.clear()
    play.pass_ms(10_000)
    assert not play.reports(Offer)
    play.do(play.session.on_capacity(1, play.now))
    assert slots(play) == 1


# -- suspects ------------------------------------------------------------------------------------------


def flags(play: Play) -> int:
    return sum(offer.takes_suspect for offer in play.reports(Offer))


def test_one_record_of_a_round_takes_a_suspect():
    assert flags(Play(slots=8)) == 1


@pytest.mark.parametrize(("count", "shards"), [(4, 4), (2, 4), (8, 8), (3, 9), (5, 12), (4, 64)])
def test_every_partition_is_offered_a_slot_for_a_suspect_in_time(count, shards):
    play = Play(slots=count, shards=shards)
    play.pass_ms(4_000 * shards * 2)
    taken = {action.partition for action in play.sent if getattr(action.report, "takes_suspect", False)}
    assert taken == set(range(shards))


def test_while_a_suspect_runs_no_offer_takes_another():
    play = Play(slots=4)
    run = play.lease(suspect=True)
    other = play.lease("other", 2)
    play.sent.clear()
    play.finish(other)
    play.pass_ms(12_000)
    assert play.reports(Offer)
    assert flags(play) == 0
    assert play.reports(Done)[0].freed.takes_suspect is False
    play.finish(run)
    assert play.reports(Done)[1].freed.takes_suspect is True


# -- reserve -------------------------------------------------------------------------------------------


def test_reserved_slots_are_offered_to_interactive_work_only():
    play = Play(slots=8, reserved=2)
    assert (slots(play, lowest_band=0), slots(play, lowest_band=2)) == (2, 6)


def test_a_slot_keeps_its_kind_when_it_is_freed():
    play = Play(slots=2, reserved=1)
    runs = [play.lease(f"j{n}", n + 1, offer=play.reports(Offer)[0].sequence) for n in range(2)]
    for run in runs:
        play.finish(run)
    assert Counter(done.freed.lowest_band for done in play.reports(Done)) == {0: 1, 2: 1}


def test_the_reserve_is_never_given_to_others_by_a_round_that_held_both_kinds():
    """Whichever record the lease answered, no more open slots are offered than may take any work."""
    play = Play(slots=8, reserved=2)
    sequence = play.offer().sequence
    play.lease("a", 1, offer=sequence)
    play.sent.clear()
    play.pass_ms(4_000)
    assert slots(play, lowest_band=2) <= 6


def test_interactive_work_may_use_an_open_slot_when_the_reserve_is_busy():
    play = Play(slots=2, reserved=1)
    sequence = play.offer().sequence
    run = play.lease("a", 1, offer=sequence)
    play.finish(run)
    freed = play.reports(Done)[0].freed
    assert freed.lowest_band == 0
    assert play.lease("b", 2, offer=freed.sequence)
    assert play.lease("c", 3, offer=freed.sequence), "an open slot is free"


def test_with_few_children_up_open_slots_come_before_reserved_ones():
    play = Play(slots=4, reserved=2)
    play.sent.clear()
    play.do(play.session.on_capacity(1, play.now))
    play.pass_ms(4_000)
    assert slots(play, lowest_band=2) == 1


# -- trouble at Kafka ----------------------------------------------------------------------------------------


def test_while_an_offer_is_not_confirmed_no_more_are_made():
    """They would all arrive at once, too old to start anything, when Kafka is back."""
    play = Play(slots=2, acks=False)
    made = len(play.reports(Offer))
    play.pass_ms(60_000)
    assert len(play.reports(Offer)) == made
    for ticket in play.tickets(Offer):
        play.do(play.session.on_acked(ticket, play.now))
    assert slots(play) >= 4


def test_an_offer_that_failed_is_made_again_after_a_moment():
    play = Play(slots=1, acks=False)
    play.do(play.session.on_failed(1, play.now, retriable=True, why="x"))
    play.sent.clear()
    play.pass_ms(499)
    assert not play.reports(Offer)
    play.pass_ms(1)
    assert slots(play) == 1


def test_with_a_single_shard_all_goes_there():
    play = Play(slots=4, shards=1)
    assert play.partitions(Offer) == [0]
    assert slots(play) == 4
    play.pass_ms(20_000)
    assert set(play.partitions(Offer)) == {0}


# -- more of the same, where two rules meet ----------------------------------------------------------------


def test_a_slot_freed_beside_a_running_suspect_takes_none():
    play = Play(slots=2)
    sequence = play.offer().sequence
    play.lease("s", 1, offer=sequence, suspect=True)
    play.finish(play.lease("other", 2, offer=sequence))
    assert play.reports(Done)[0].freed.takes_suspect is False


def grown(slots: int, shards: int) -> Play:
    """A worker whose children come up one by one."""
    play = Play(slots=slots, shards=shards, capacity=0)
    for capacity in range(1, slots + 1):
        play.do(play.session.on_capacity(capacity, play.now))
    return play


def test_slots_that_come_up_one_by_one_join_the_round_and_only_one_takes_a_suspect():
    play = grown(4, 8)
    assert len({offer.sequence for offer in play.reports(Offer)}) == 1
    assert flags(play) == 1


def test_no_partition_gets_two_records_of_one_sequence():
    """The second would be taken for a repetition of the first."""
    play = grown(6, 4)
    places = [(sent.partition, sent.report.sequence) for sent in play.sent]
    assert len(set(places)) == len(places)
    latest = play.offer().sequence
    assert sum(offer.slots for offer in play.reports(Offer) if offer.sequence == latest) == 6


def test_who_joins_a_round_counts_from_its_first_record():
    play = Play(slots=2, capacity=1)
    play.pass_ms(3_900)
    play.do(play.session.on_capacity(2, play.now))
    (first, joined) = play.reports(Offer)
    assert first.sequence == joined.sequence
    lease = play.lease_of(offer=joined.sequence)
    play.sleep_ms(9_000 - 3_900)
    assert not play.give(lease)


@pytest.mark.parametrize("boot", range(16))
def test_wherever_it_begins_a_round_reaches_both_halves_of_the_partitions(boot):
    book = OfferBook(slots=4, reserved=0, shards=16, boot_id=bytes([boot]) * 16, timing=Timing())
    book.set_capacity(4)
    partitions = [placed.partition for placed in book.rounds(0, takes_suspect=False)]
    assert {partition // 8 for partition in partitions} == {0, 1}
