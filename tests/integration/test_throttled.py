"""Dispatchers that get a tenth of the processor's time: the group settles, what was restored is kept, and leases flow.

The short form is for every run. The long one is the case as it was met, five minutes with 64 shards and 200,000 jobs:
`THROTTLED=long ./scripts/test tests/integration/test_throttled.py`.
"""

import os
import re
import threading
import time
import urllib.request
from collections import defaultdict
from contextlib import contextmanager
from typing import NamedTuple

import psutil
import pytest
from confluent_kafka import TopicPartition

from scheduler.devkafka.ports import free_ports
from tests.chaos.fleet import stopped
from tests.integration.traffic import said, traffic_on


class Size(NamedTuple):
    shards: int
    jobs: int
    throttled_s: float


SIZE = {"short": Size(16, 12_000, 15), "long": Size(64, 200_000, 300)}[os.environ.get("THROTTLED", "short")]
ON_S, OFF_S = 0.1, 0.9
SETTLE_S = 60.0
ROUNDS = 10
PATIENCE_S = 300.0  # a bound for what hangs
ANSWER_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SIZE.throttled_s + 3 * PATIENCE_S)]


class Dispatcher:
    """One dispatcher, seen by its log and its metrics."""

    def __init__(self, traffic, name):
        self._port = free_ports(1)[0]
        folder = str(traffic.site.folder / name)
        arguments = ["dispatcher", "--name", name, "--state-dir", folder, "--metrics-port", str(self._port)]
        self.process = traffic.site._start(name, arguments)

    def metric(self, name):
        """Return the sum over all labels of a metric."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=ANSWER_S) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def restored(self):
        """Return (shard, records read) of each restore that came to its end, in order."""
        told = said(self.process, r"shard (\d+) restored: (\d+) records read")
        return [(int(shard), int(records)) for shard, records in told]

    def at_work(self):
        """Return the shards that it holds and has restored since it got them."""
        shards = set()
        for restored, lost in said(self.process, r"shard (\d+) restored|lost shards \[([\d, ]+)\]"):
            shards |= {int(restored)} if restored else set()
            shards -= {int(shard) for shard in lost.split(", ")} if lost else set()
        return shards

    def changes(self):
        return len(said(self.process, "gained shards|lost shards"))


@contextmanager
def throttled(dispatchers):
    """Let each of them run for a tenth of the time, each in a rhythm of its own, as soon as it is ready."""
    over = threading.Event()
    threads = [threading.Thread(target=throttle, args=(each.process, over)) for each in dispatchers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def throttle(process, over):
    while not process.ready() and not over.wait(0.01):
        pass
    tree = [psutil.Process(process.pid)]
    while not over.is_set():
        with stopped(tree):
            over.wait(OFF_S)
        over.wait(ON_S)


def test_throttled_dispatchers_settle_keep_what_they_restored_and_go_on(kafka):
    with traffic_on(kafka, shards=SIZE.shards, rate=0) as traffic:
        leave_a_backlog(traffic)
        before = traffic.generations.latest()
        pair = [Dispatcher(traffic, "a"), Dispatcher(traffic, "b")]
        with throttled(pair):
            until_s = time.monotonic() + SIZE.throttled_s
            a_third_comes_and_goes(traffic, pair)
            assert_nothing_is_read_back_twice(traffic, pair)
            leases_flow(traffic, pair, until_s)
            rounds, ended = traffic.generations.latest() - before, len(traffic.judge.ends)
        assert rounds < ROUNDS, traffic.logs()
        for each in pair:  # what is shown of it: changes that meet in one poll count as one
            assert 0 < each.metric("jobs_rebalances_total") <= each.changes(), traffic.logs()
        traffic.until_done(PATIENCE_S)
        traffic.assert_each_job_once()
    print(f"{rounds} rounds; {ended} of {SIZE.jobs} jobs ended while throttled")


def leave_a_backlog(traffic):
    """Have a dispatcher take in all jobs and leave: they are in the changelog alone then, and nobody has run one."""
    first = Dispatcher(traffic, "first")
    traffic.submitted += traffic.load.publish(SIZE.jobs)
    traffic.works = False
    traffic.until(first.process.ready, PATIENCE_S, "the first one is ready")
    traffic.until(lambda: first.metric("jobs_submitted_total") == SIZE.jobs, PATIENCE_S, "all is taken in")
    assert first.process.stop() == 0


def a_third_comes_and_goes(traffic, pair):
    """Have one that is not throttled take away what the others have restored, and give it back."""
    settle(traffic, pair)
    all_is_at_work(traffic, pair)
    third = Dispatcher(traffic, "third")
    traffic.until(third.process.ready, PATIENCE_S, "the third is ready")
    settle(traffic, [*pair, third])
    all_is_at_work(traffic, [*pair, third])
    third.process.terminate()
    settle(traffic, pair)
    all_is_at_work(traffic, pair)


def settle(traffic, there):
    members = [each.process for each in there]
    traffic.until(lambda: traffic.shared_by(members), SETTLE_S, f"{len(there)} share the shards")


def all_is_at_work(traffic, there):
    traffic.until(
        lambda: sum(len(each.at_work()) for each in there) == SIZE.shards, PATIENCE_S, "all is restored"
    )


def assert_nothing_is_read_back_twice(traffic, pair):
    """Check that no process read more of a changelog than there is: what it had of a shard, it kept.

    No job has run yet, so a second restore from the beginning would read nearly all of that once more.
    """
    changelog = [TopicPartition(f"{traffic.site.prefix}changelog", shard) for shard in range(SIZE.shards)]
    ends = {at.partition: at.offset for at in traffic.admin.committed_end(changelog)}
    read = defaultdict(list)
    for each in pair:
        for shard, records in each.restored():
            read[each.process.name, shard].append(records)
    assert any(len(records) > 1 for records in read.values()), "some came back to whoever had them"
    again = {place: records for place, records in read.items() if sum(records) > ends[place[1]]}
    assert not again, traffic.logs()


def leases_flow(traffic, pair, until_s):
    """Check that jobs run on every shard, and end at both dispatchers, while these are throttled."""
    traffic.works = True
    traffic.until(
        lambda: time.monotonic() >= until_s and len(traffic.leased) == SIZE.shards,
        SIZE.throttled_s + PATIENCE_S,
        "leases from all shards",
    )
    for each in pair:
        traffic.until(lambda each=each: each.metric("jobs_finished_total") > 0, PATIENCE_S, "jobs end there")
