"""A broker that does not answer is told of; one that does costs no word."""

import threading

import pytest

from scheduler.cli import silence


class Broker:
    """A connection to one that answers or not, and a sign that it was asked."""

    bootstrap = "kafka-1:9092"

    def __init__(self, answer):
        self._answer = answer
        self.asked = threading.Event()

    def answers(self, _within_s):
        self.asked.set()
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"), [(True, ""), (False, "no broker answers at kafka-1:9092 yet; trying for 30 s\n")]
)
def test_only_silence_is_told(monkeypatch, capsys, answer, said):
    monkeypatch.setattr(silence, "_AFTER_S", 0.0)
    broker = Broker(answer)
    with silence.silence_told(broker, 30.0):
        assert broker.asked.wait(10)
    assert capsys.readouterr().err == said


def test_a_broker_that_has_answered_is_not_asked(capsys):
    broker = Broker(False)
    with silence.silence_told(broker, 30.0) as answered:
        answered()
    assert not broker.asked.is_set()
    assert capsys.readouterr().err == ""


def test_the_word_comes_within_five_seconds():
    assert silence._AFTER_S + silence._LOOK_S + 1 <= 5
