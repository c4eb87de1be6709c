"""When a worker may take a report of its for sent."""

from confluent_kafka import KafkaError, Message

from scheduler.kafka.inbox import outcome
from scheduler.worker.ports import Delivered, Undelivered

WRITTEN = Message(topic="jobs.reports", partition=3, offset=0)
PRESUMED = Message(topic="jobs.reports", partition=3, offset=-1001)


def test_a_report_counts_as_sent_once_its_offset_is_told():
    """A beat that is only presumed to be written would let a run outlive its lease."""
    assert outcome(1, None, WRITTEN) == Delivered(1)
    presumed = outcome(2, None, PRESUMED)
    assert isinstance(presumed, Undelivered)
    assert (presumed.ticket, presumed.retriable) == (2, True)


def test_what_is_the_records_own_fault_is_not_tried_again():
    refused = outcome(1, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), WRITTEN)
    passing = outcome(1, KafkaError(KafkaError._MSG_TIMED_OUT), PRESUMED)
    assert isinstance(refused, Undelivered)
    assert isinstance(passing, Undelivered)
    assert (refused.retriable, passing.retriable) == (False, True)
