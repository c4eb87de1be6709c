"""The short form of `scripts/chaos`, on one broker that stays: each kind of fault of ours about once.

The death of a broker costs half a minute each time, and has tests of its own here and in `tests/kafka`; `scripts/chaos` kills
brokers too.
"""

import os

import pytest

from scheduler import devkafka
from tests.chaos.catalogue import OF_OURS
from tests.chaos.report import as_table
from tests.chaos.run import Chaos

SEED = 1
MINUTES = 0.5
RATE = 20.0
QUIET_S = 240.0
"""A bound for a system that hangs; one that does not is quiet after a quarter of it."""

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(600)]


def test_whatever_happens_nothing_is_lost_and_nothing_runs_twice_at_once() -> None:
    try:
        chaos = Chaos(seed=SEED, minutes=MINUTES, brokers=1, rate=RATE, say=print, faults=OF_OURS)
    except devkafka.DevKafkaError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no broker: {error}")
        pytest.skip(f"no broker: {error}")
    try:
        report = chaos.run(QUIET_S)
        said = "" if report.clean else chaos.logs()
    finally:
        chaos.close(keep=False)
    assert report.clean, f"{as_table(report)}\n{said}"
    assert report.verdict.succeeded > 0
    assert report.kills > 0
    assert report.stops > 0
