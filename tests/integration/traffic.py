"""Jobs that flow through real dispatchers while these come, go or hardly run: submitted, leased and answered from here."""

import re
import time
import uuid
from collections import Counter, defaultdict
from contextlib import contextmanager

import pytest

from scheduler.bench.judge import Judge
from scheduler.bench.load import Load
from scheduler.bench.site import Site
from scheduler.bench.standin import StandIn
from scheduler.kafka.admin import Admin
from tests.integration.generations import Generations

SLOTS = 256
PAUSE_S = 0.005
ASK_EVERY_S = 0.25
OFFER_EVERY_S = 0.5


class Traffic:
    """One site, the load on it, a stand-in for its workers, and what can be seen of both from outside."""

    def __init__(self, kafka, shards, rate):
        self.site = Site({"bootstrap.servers": kafka}, shards=shards, prefix=f"t{uuid.uuid4().hex[:8]}-")
        properties, prefix = self.site.properties, self.site.prefix
        self.group = f"{prefix}dispatcher"
        self.load = Load(properties, prefix, shards, linger_ms=0)
        self.judge = Judge(properties, prefix)
        self.generations = Generations(properties, self.group)
        self.leased = Counter()  # by shard
        self.epochs = defaultdict(set)  # by job
        self.submitted = []
        self.rate = rate  # jobs a second; 0 for none
        self.works = True  # whether slots are offered
        self._worker = StandIn(properties, prefix, slots=SLOTS, shards=shards)
        self.admin = Admin(properties)
        self._next_s = self._asked_s = self._offered_s = time.monotonic()
        self._shares = {}

    def until(self, reached, within_s, what):
        """Let jobs flow until `reached`; fail with the logs if it never is."""
        deadline = time.monotonic() + within_s
        while not reached():
            self._step()
            if time.monotonic() > deadline:
                pytest.fail(f"not within {within_s} s: {what}; {self.logs()}")

    def until_done(self, within_s):
        """Submit no more, and wait for the ends of all."""
        self.rate = 0
        self.until(lambda: len(self.judge.ends) >= len(self.submitted), within_s, "the end of all jobs")
        self.judge.follow(1.0)  # a second end would come now

    def shares(self):
        """Return the shards of each member of the group, by its name, as the coordinator told a moment ago."""
        now_s = time.monotonic()
        if now_s >= self._asked_s + ASK_EVERY_S:
            self._asked_s = now_s
            members = self.admin.described(self.group).result(20).members
            self._shares = {
                member.client_id: {at.partition for at in member.assignment.topic_partitions}
                for member in members
            }
        return self._shares

    def shared_by(self, processes):
        """Say whether just these hold all shards, in equal parts.

        Whoever has to give a shard away gives it before another gets it. So a change of the group is over only then.
        """
        shares = self.shares()
        sizes = [len(shards) for shards in shares.values()]
        return (
            shares.keys() == {process.name for process in processes}
            and sum(sizes) == self.site.shards
            and max(sizes) - min(sizes) <= 1
        )

    def assert_each_job_once(self):
        """Check that each job was granted once and ended once, whoever held its shard meanwhile."""
        assert self.submitted
        ends = {job: self.judge.ends.get(job) for job in self.submitted}
        otherwise = {job: end for job, end in ends.items() if end != ["succeeded"]}
        assert not otherwise, (otherwise, self.logs())
        again = {job: self.epochs[job] for job in self.submitted if len(self.epochs[job]) != 1}
        assert not again, (again, self.logs())

    def close(self):
        self._worker.close()
        self.load.close()
        self.judge.close()
        self.generations.close()
        self.site.close()

    def logs(self):
        return "\n".join(
            f"--- {process.name}\n{process.log.read_text()[-2000:]}" for process in self.site.processes
        )

    def _step(self):
        now_s = time.monotonic()
        while self.rate and self._next_s <= now_s:
            self.submitted.append(self.load.one())
            self._next_s += 1 / self.rate
        if self.works:
            self._work(now_s)
        self.judge.follow(0 if self.works else PAUSE_S)

    def _work(self, now_s):
        if now_s >= self._offered_s + OFFER_EVERY_S:
            self._offered_s = now_s
            self._worker.offer()  # else whoever had the slots last keeps them, and the others' jobs wait
        self._worker.step(PAUSE_S, self._note)

    def _note(self, lease, _at_ms):
        self.leased[lease.shard] += 1
        self.epochs[lease.job_id].add(lease.epoch)


@contextmanager
def traffic_on(kafka, *, shards, rate):
    traffic = Traffic(kafka, shards, rate)
    try:
        yield traffic
    finally:
        traffic.close()


def said(process, what):
    """Return what the groups of `what` match in a process's log, in order."""
    return re.findall(what, process.log.read_text())
