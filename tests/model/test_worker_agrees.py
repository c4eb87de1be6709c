"""The model's worker is the one we run: what happens to one in random order happens to a production session as well.

After each event both must run the same epoch, as far from its deadline, and must have reported the same.
"""

import random

import pytest

from scheduler.core.reports import Beat, Done, Fail, Release
from scheduler.core.timing import Timing
from scheduler.worker.actions import KillRun
from scheduler.worker.offers import OPEN, Sent
from scheduler.worker.runs import Run
from tests.model.bounds import SMALLEST
from tests.model.rules import Rules
from tests.model.state import BEAT, DONE, FAIL, LEASE, RELEASE, REVOKE, Notice, Worker
from tests.model.worker import WorkerSteps
from tests.worker.play import Play

TICK_MS = 10_000
LEASE_MS = SMALLEST.lease * TICK_MS
TIMING = Timing(
    first_ms=SMALLEST.first * TICK_MS,
    first_margin_ms=SMALLEST.margin * TICK_MS,
    margin_min_ms=SMALLEST.margin * TICK_MS,
    first_beat_ms=1_000 * TICK_MS,  # the first beats are answers to a lease that is sent again
)
KINDS = {Beat: BEAT, Done: DONE, Fail: FAIL, Release: RELEASE}
EPOCHS = 3
SEEDS = 400
LENGTH = 40
EVENTS = (
    "tick",
    "lease",
    "lease",
    "revoke",
    "finish",
    "acknowledged",
    "acknowledged late",
    "foreign lease",
    "foreign revoke",
)
PASSES = ("tick", "acknowledged late")

KEPT_BY_THE_WORKER = (
    "acts_on_own_boot_id",
    "deadline_first",
    "deadline_from_offer",
    "ended_epochs_remembered",
    "foreign_lease_unanswered",
    "renewal_from_send",
    "running_lease_answered",
    "starts_within_first_period",
    "stops_a_margin_early",
    "unknown_revoke_answered",
)

Reports = list[tuple[str, int]]


class Production:
    """A production session, and children that do as they are told."""

    def __init__(self) -> None:
        self._play = Play(slots=1, acks=False, timing=TIMING)
        self._offers_sent: dict[int, int] = {}
        self._told = 0

    def offer_age(self, epoch: int, age: int) -> int:
        """The age of the offer that this epoch answers; `age` when it is asked for the first time."""
        sent_ms = self._offers_sent.setdefault(epoch, self._play.now - age * TICK_MS)
        return (self._play.now - sent_ms) // TICK_MS

    def notice(self, kind: str, epoch: int, *, foreign: bool) -> None:
        boot_id = {"boot_id": b"F" * 16} if foreign else {}
        if kind == REVOKE:
            self._play.revoke(epoch=epoch, reason="unknown", **boot_id)
            return
        offer = 1_000_000 + epoch
        self._play.session._desk.book._sent[offer] = Sent(self._offers_sent[epoch], (OPEN,))
        self._play.lease(epoch=epoch, offer=offer, lease_ms=LEASE_MS, **boot_id)

    def finish(self) -> None:
        run = self._running()
        if run is not None:
            self._play.finish(run.number)

    def acknowledge(self) -> None:
        """Let Kafka confirm the last beat."""
        beats = [sent for sent in self._play.sent if isinstance(sent.report, Beat)]
        for sent in beats[-1:]:
            self._play.do(self._play.session.on_acked(sent.ticket, self._play.now))

    def acknowledge_late(self) -> None:
        """The same, after a tick during which the process was stopped."""
        self._play.sleep_ms(TICK_MS)
        self.acknowledge()

    def tick(self) -> None:
        self._play.pass_ms(TICK_MS)

    def settle(self) -> Reports:
        """Let children die that are to be killed; return what has been reported since the last time."""
        play = self._play
        play.do(play.session.tick(play.now))
        while kills := play.all(KillRun):
            play.actions.clear()
            play.gone(*(kill.run for kill in kills))
        reports = [sent.report for sent in play.sent if type(sent.report) in KINDS][self._told :]
        self._told += len(reports)
        return [(KINDS[type(one)], epoch_of(one)) for one in reports]

    def run(self) -> tuple[int, int]:
        """Return the epoch that runs, 0 if none, and how many ticks its deadline is away."""
        run = self._running()
        return (run.lease.epoch, (run.deadline_ms - self._play.now) // TICK_MS) if run else (0, 0)

    def _running(self) -> Run | None:
        return next(iter(self._play.session._runs), None)


def epoch_of(report: Beat | Done | Fail | Release) -> int:
    return report.leases[0].epoch if isinstance(report, Beat) else report.epoch


class Modelled:
    """The model's worker, in the same hands. What it sends is in the log at once."""

    def __init__(self, rules: Rules) -> None:
        self._steps = WorkerSteps(rules, SMALLEST)
        self._worker = Worker()

    def _take(self, begins: str) -> None:
        """Take the step that begins so, if there is one."""
        for move in self._steps.moves(0, self._worker):
            if move.text.startswith(begins):
                self._worker = move.worker
                return

    def notice(self, kind: str, epoch: int, age: int, *, foreign: bool) -> None:
        notice = Notice(kind, int(foreign), epoch, min(age, self._steps.window))
        self._worker = self._worker._replace(inbox=(notice,))
        self._take("%s reads")

    def finish(self) -> None:
        self._take(f"epoch {self._worker.run} succeeds")

    def acknowledge(self) -> None:
        self._take("%s hears")

    def tick(self) -> None:
        self._worker = self._steps.older(self._worker)

    def beat(self) -> None:
        self._take("%s sends a beat")

    def settle(self) -> Reports:
        reports = []
        while self._worker.outbox:
            move = next(move for move in self._steps.moves(0, self._worker) if move.report)
            self._worker = move.worker
            reports.append((move.report.kind, move.report.epoch))
        return reports

    def run(self) -> tuple[int, int]:
        return self._worker.run, self._worker.left


def disagreement(rules: Rules, seed: int) -> str:
    """Return the event after which the two differ, an empty string if none."""
    chance = random.Random(seed)
    modelled, production = Modelled(rules), Production()
    for _ in range(LENGTH):
        event = chance.choice(EVENTS)
        happen(event, chance, modelled, production)
        reported = production.settle()
        told = modelled.settle()
        if event in PASSES and (BEAT, modelled.run()[0]) in reported:
            modelled.beat()  # when to beat is left open by the model
            told += modelled.settle()
        if reported != told or production.run() != modelled.run():
            return event
    return ""


def happen(event: str, chance: random.Random, modelled: Modelled, production: Production) -> None:
    """Let one event come to both."""
    if event == "tick":
        modelled.tick()
        production.tick()
    elif event == "finish":
        modelled.finish()
        production.finish()
    elif event == "acknowledged":
        modelled.acknowledge()
        production.acknowledge()
    elif event == "acknowledged late":
        modelled.tick()
        modelled.acknowledge()
        production.acknowledge_late()
    else:
        epoch, foreign = chance.randint(1, EPOCHS), event.startswith("foreign")
        age = production.offer_age(epoch, chance.randint(0, SMALLEST.first))
        modelled.notice(LEASE if event.endswith(LEASE) else REVOKE, epoch, age, foreign=foreign)
        production.notice(LEASE if event.endswith(LEASE) else REVOKE, epoch, foreign=foreign)


def test_production_does_what_the_model_does():
    assert [seed for seed in range(SEEDS) if disagreement(Rules(), seed)] == []


@pytest.mark.parametrize("rule", KEPT_BY_THE_WORKER)
def test_without_a_rule_of_the_worker_they_differ(rule):
    assert any(disagreement(Rules([rule]), seed) for seed in range(SEEDS))
