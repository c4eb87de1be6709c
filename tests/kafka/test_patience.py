"""A call that never returns is waited for no longer than it should take."""

import threading

import pytest

from scheduler.dispatcher.ports import Fenced
from scheduler.kafka import transaction
from scheduler.kafka.names import Names
from scheduler.kafka.patience import Stuck, within
from scheduler.kafka.transaction import TransactionalProducer
from scheduler.kafka.troubles import Troubles


@pytest.fixture
def never():
    """Wait for ever, until the test is over."""
    over = threading.Event()
    yield over.wait
    over.set()


def test_what_a_call_does_and_raises_is_as_if_it_were_made_here():
    done = []
    within(10, lambda: done.append(1))
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 // 0)


def test_a_call_that_does_not_return_is_left_behind(never):
    with pytest.raises(Stuck):
        within(0.05, never)


class Frozen:
    """A client whose coordinator came back, and who has not noticed."""

    def __init__(self, never) -> None:
        self._never = never

    def send_offsets_to_transaction(self, *_) -> None:
        self._never()


def test_a_transaction_whose_offsets_are_never_taken_gives_its_producer_up(never, monkeypatch):
    monkeypatch.setattr(transaction, "CALL_S", 0.05)
    monkeypatch.setattr(transaction, "STUCK_S", 0.05)
    producer = TransactionalProducer({}, Names("t."), Troubles())
    producer._producer = Frozen(never)
    producer._flushed = True
    with pytest.raises(Fenced, match="does not return"):
        producer.send_offsets([], None)
