"""A broker that stops answering in the middle: what each step of a transaction says, and how it goes on."""

import threading
import uuid

import pytest

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import LogError, MustAbort, OutcomeUnknown
from scheduler.kafka import transaction
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout
from scheduler.kafka.log import KafkaLog, LogSettings
from scheduler.kafka.readiness import answers
from tests.kafka.seen import Seen, add, at, changelog, committed_keys, produce, topic_of, transact

pytestmark = pytest.mark.slow


@pytest.fixture
def frozen(own_broker, monkeypatch):
    """A dispatcher with one shard on a broker of its own, whose steps are tried for 3 s."""
    monkeypatch.setattr(transaction, "CALL_S", 3.0)
    properties = {"bootstrap.servers": own_broker.bootstrap, "heartbeat.interval.ms": "500"}
    layout = Layout(1, {"default": 1}, prefix=f"t{uuid.uuid4().hex[:6]}-")
    apply(properties, layout)
    log = KafkaLog(LogSettings(properties, "a", "b", layout.prefix))
    seen = Seen(log)
    seen.until(lambda: seen.owned == {0})
    yield seen, own_broker, properties, layout
    own_broker.resume()
    log.close()


def freeze(broker):
    """Suspend it and wait until it is silent: its threads stop one by one, some only after an answer or two."""
    broker.suspend()
    while answers({"bootstrap.servers": broker.bootstrap}, 0.3):
        pass


def test_a_frozen_broker_in_each_step(frozen):
    seen, broker, properties, layout = frozen
    log = seen.log
    log.follow(0, at(0))

    metadata = log.metadata()
    log.begin()
    add(log, changelog(0, b"commit"))
    log.flush()
    log.fence({(0, Input.REPORTS): 0}, metadata)
    freeze(broker)
    with pytest.raises(OutcomeUnknown):
        log.commit()
    broker.resume()
    log.reopen()
    known = committed_keys(properties, layout.prefix + "changelog", 0)
    assert known in ([b"m"], [b"m", b"commit"])  # one or the other, but never both later

    log.begin()
    add(log, changelog(0, b"flush"))
    freeze(broker)
    with pytest.raises(MustAbort) as failed:
        log.flush()
    assert failed.value.topic == ""  # nobody's record is to blame
    with pytest.raises(LogError):  # nobody says what is still open now
        log.abort()
    broker.resume()
    log.reopen()

    goes_on(seen)
    assert committed_keys(properties, layout.prefix + "changelog", 0) == [*known, b"after"]
    produce(properties, topic_of(layout, Input.SUBMIT_BULK), 0, [b"job"])
    if seen.lost:  # the freeze may have outlasted the session
        log.follow(0, at(0))
    seen.until(lambda: b"job" in seen.keys(Input.SUBMIT_BULK))


def goes_on(seen):
    """Own the shard again and commit; right after an outage a try may be refused."""
    while True:
        seen.until(lambda: seen.owned == {0})
        try:
            return transact(seen.log, 0, 0, changelog(0, b"after"))
        except MustAbort:
            seen.log.abort()
            seen.poll()


def test_a_short_freeze_is_only_a_delay(frozen):
    seen, broker, properties, layout = frozen
    metadata = seen.log.metadata()
    seen.log.begin()
    add(seen.log, changelog(0, b"late"))
    freeze(broker)
    threading.Timer(1.0, broker.resume).start()
    seen.log.flush()
    seen.log.fence({(0, Input.REPORTS): 0}, metadata)
    seen.log.commit()
    assert committed_keys(properties, layout.prefix + "changelog", 0) == [b"m", b"late"]


def test_closing_beside_a_frozen_broker_ends(own_broker):
    properties = {"bootstrap.servers": own_broker.bootstrap}
    layout = Layout(1, {"default": 1}, prefix="t-")
    apply(properties, layout)
    log = KafkaLog(LogSettings(properties, "a", "b", layout.prefix))
    seen = Seen(log)
    seen.until(lambda: seen.owned == {0})
    freeze(own_broker)
    closing = threading.Thread(target=log.close)
    closing.start()
    closing.join(20)
    own_broker.resume()
    assert not closing.is_alive()
