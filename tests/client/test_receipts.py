"""What counts as a receipt: an offset, and nothing less."""

import asyncio

import pytest
from confluent_kafka import KafkaError, Message

from scheduler.client.bulk import _Sent
from scheduler.client.config import ClientConfig
from scheduler.client.delivery import undelivered
from scheduler.client.errors import SubmitUnknown
from scheduler.client.reference import JobRef
from scheduler.client.submitter import _Acknowledgement, _AsyncAcknowledgement

PRESUMED = Message(topic="t", partition=0, offset=-1001)
"""The client saw a later record taken, and takes this one to be written too."""

WRITTEN = Message(topic="t", partition=0, offset=7)


def asynchronous():
    async def made():
        return _AsyncAcknowledgement()

    return asyncio.run(made())


@pytest.mark.parametrize("acknowledgement", [_Acknowledgement, asynchronous])
def test_a_report_without_an_offset_acknowledges_nothing(acknowledgement, request_of):
    presumed, written = acknowledgement(), acknowledgement()
    presumed(None, PRESUMED)
    written(None, WRITTEN)
    assert (written.error, written.offset) == (None, 7)
    assert type(undelivered(presumed.error, request_of(), "t", ClientConfig({}))) is SubmitUnknown


def test_in_a_stream_it_is_a_trouble(request_of):
    request, troubles = request_of(), []
    presumed, written = (_Sent(request, JobRef(request.id, "t", 0, -1), troubles) for _ in range(2))
    presumed(None, PRESUMED)
    written(None, WRITTEN)
    assert troubles == [presumed]
    assert presumed.request is request
    assert presumed.error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (written.request, written.ref.receipt) == (None, ("t", 0, 7))
