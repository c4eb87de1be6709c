"""The job table: what may follow what, and that anything else changes nothing."""

import itertools

import pytest

from scheduler.core.job import ENDED, LIVE, MOVES, STATUS, Admitted, IllegalMove, JobState, Phase, born, move

LEGAL = {
    ("scheduled", "ready"),
    ("scheduled", "cancelled"),
    ("scheduled", "expired"),
    ("blocked", "ready"),
    ("blocked", "scheduled"),
    ("blocked", "cancelled"),
    ("blocked", "expired"),
    ("ready", "leased"),
    ("ready", "succeeded"),  # a late `done` of the latest epoch
    ("ready", "failed"),  # its record is gone
    ("ready", "cancelled"),
    ("ready", "expired"),
    ("leased", "ready"),
    ("leased", "retrying"),
    ("leased", "succeeded"),
    ("leased", "failed"),
    ("leased", "cancelled"),
    ("retrying", "ready"),
    ("retrying", "succeeded"),  # late
    ("retrying", "failed"),  # late
    ("retrying", "cancelled"),
    ("retrying", "expired"),
    ("failed", "ready"),  # a new life on request
    ("cancelled", "ready"),
    ("expired", "ready"),
}


ADMITTED = Admitted(1, "t", "q", "x", 3, b"d", 1, 2, 5, 1_000, has_key=False)


def state(phase: Phase) -> JobState:
    return JobState("a", ADMITTED, phase)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(Phase, Phase)))
def test_a_move_is_made_if_the_table_has_it_and_refused_otherwise(one, other):
    before = state(one)
    if (one, other) in LEGAL:
        assert move(before, other, due_ms=7) == JobState("a", ADMITTED, other, due_ms=7)
    else:
        with pytest.raises(IllegalMove, match=f"a: {one} -> {other}"):
            move(before, other, due_ms=7)
    assert before == state(one)


def test_leased_is_never_left_towards_scheduled_or_expired():
    assert Phase.SCHEDULED not in MOVES[Phase.LEASED]
    assert Phase.EXPIRED not in MOVES[Phase.LEASED]


def test_nothing_but_ready_becomes_leased():
    assert [phase for phase in Phase if Phase.LEASED in MOVES[phase]] == [Phase.READY]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_job_is_born_in_few_states(phase):
    if phase in (Phase.LEASED, Phase.RETRYING, Phase.SUCCEEDED, Phase.FAILED):
        with pytest.raises(IllegalMove):
            born(phase)
    else:
        assert born(phase) is phase


def test_every_phase_is_live_or_ended_and_has_a_plain_word():
    assert set(Phase) == LIVE | ENDED
    assert not LIVE & ENDED
    assert STATUS.keys() == set(Phase)
    assert STATUS[Phase.EXPIRED] == "cancelled"
