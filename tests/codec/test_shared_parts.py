"""Parts that one state has in common with the next are encoded once; nobody can tell by the bytes."""

from scheduler.codec import encoding
from scheduler.codec.state import decode_state, encode_state
from scheduler.core.job import Admitted, Grant, JobState, Phase, move


def admitted(tenant: str, offset: int = 1) -> Admitted:
    return Admitted(1, tenant, "q", "x", 3, b"d" * 16, 1, offset, 5, 1_000, has_key=False)


def leased(tenant: str, epoch: int) -> JobState:
    given = Grant(epoch, b"t" * 16, 20_000, 1_000, "w", b"b" * 16, 1, "default", 0, 5)
    return move(JobState("a", admitted(tenant), Phase.READY), Phase.LEASED, epoch=epoch, grant=given)


def test_states_that_share_parts_are_encoded_like_those_that_do_not():
    state = leased("one", 7)
    later = move(state, Phase.SUCCEEDED, due_ms=9)
    apart = JobState("a", admitted("one"), Phase.SUCCEEDED, due_ms=9, epoch=7, grant=leased("one", 7).grant)
    assert later == apart
    assert later.admitted is state.admitted
    assert encode_state(state) == encode_state(state) == encode_state(leased("one", 7))
    assert encode_state(later) == encode_state(apart)


def test_a_part_that_takes_the_place_of_one_that_is_gone_is_not_taken_for_it():
    for n in range(2_000):  # each is freed at once, so its memory, and with that its identity, comes again
        state = leased(f"tenant-{n}", n)
        assert decode_state(encode_state(state)) == state


def test_what_is_remembered_is_bounded():
    kept = encoding.Kept()
    for n in range(40_000):
        part = admitted("t", n)
        assert kept.keep(part, b"%d" % n) == (part, b"%d" % n)
    assert len(kept) <= 16_384
