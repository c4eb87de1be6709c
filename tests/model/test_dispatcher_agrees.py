"""The model's dispatcher is the one we run: ways through the model are played to a production dispatcher.

Where the model reads a report, the dispatcher is given that report; where it sends an echo, the dispatcher's is kept
until the model reads it. After each step both must have the job in the same phase and epoch, the renewal equally old
under the same period, and must have sent the worker the same notices.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest

from scheduler.codec.reports import decode_report
from scheduler.core.job import ErrorInfo, Phase
from scheduler.core.notices import Lease
from scheduler.core.reports import Beat, Done, Fail, Held, Release, ReleaseReason, Verdict
from scheduler.core.settings import QueueSettings
from scheduler.core.timing import Timing
from tests.dispatcher.world import World
from tests.model.bounds import SMALLEST
from tests.model.clock import TICK
from tests.model.model import Model
from tests.model.rules import Rules
from tests.model.search import Exploration, Path
from tests.model.state import BEAT, DONE, ECHO, FAIL, LEASE, LEASED, RELEASE, REVOKE, Report, State, Step
from tests.model.trace import step_between

TICK_MS = 10_000
BOUNDS = SMALLEST.but(inbox=2, failures=1)
TIMING = Timing(
    first_ms=BOUNDS.first * TICK_MS, first_margin_ms=TICK_MS, margin_min_ms=TICK_MS, echo_every_ms=0
)
HOUR_MS = 3_600_000
STATES = 4_000  # the nearest ones
WAYS = 3

KEPT_BY_THE_DISPATCHER = (
    "done_of_latest_epoch",
    "echo_after_period",
    "epochs_rise",
    "late_done_counts",
    "stale_report_revoked",
    "whole_period_after_renewal",
)


class Production:
    """One production dispatcher with one shard and one job; its turns take no time."""

    def __init__(self) -> None:
        queue = QueueSettings(lease_ms=BOUNDS.lease * TICK_MS)
        self._world = World(1, queues={"q": queue}, timing=TIMING, completions_wait_ms=0)
        self._world.start()
        self._dispatcher = self._world.dispatchers["d1"]
        self._dispatcher.dice.fixed = 0.0  # a failed job is ready again at once
        self._worker = self._world.worker()
        self._echoes: list[bytes] = []
        self._dispatcher.log.echo = lambda _, value: self._echoes.append(value)
        self._echo = b""  # the one that the model waits for
        self._leases: dict[int, Lease] = {}
        self._world.submit("a", timeout_ms=HOUR_MS)
        self._turn()

    def _turn(self) -> list[tuple[str, int]]:
        self._world.turn(every_ms=0)
        notices = self._worker.hear()
        self._leases |= {notice.epoch: notice for notice in notices if isinstance(notice, Lease)}
        return [(LEASE if isinstance(notice, Lease) else REVOKE, notice.epoch) for notice in notices]

    # -- what the model does ---------------------------------------------------------------------------

    def tick(self) -> list[tuple[str, int]]:
        self._world.time.ms += TICK_MS
        return []

    def grant(self) -> list[tuple[str, int]]:
        self._worker.offer(takes_suspect=True)
        return self._turn()

    def send_echo(self) -> list[tuple[str, int]]:
        self._echoes.clear()
        notices = self._turn()
        (self._echo,) = self._echoes
        return notices

    def read(self, report: Report) -> list[tuple[str, int]]:
        said = decode_report(self._echo) if report.kind == ECHO else self._report(report)
        self._worker.say(0, said)
        return self._turn()

    def _report(self, report: Report) -> Beat | Done | Fail | Release:
        lease = self._leases[report.epoch]
        sender, named = self._worker.sender, (lease.job_id, lease.epoch, lease.token)
        return {
            BEAT: Beat(sender, (Held(*named),)),
            DONE: Done(sender, *named),
            FAIL: Fail(sender, *named, Verdict.RETRY, error=ErrorInfo("ValueError", "no")),
            RELEASE: Release(sender, *named, ReleaseReason.BUSY),
        }[report.kind]

    # -- what came of it -------------------------------------------------------------------------------

    def job(self) -> tuple[str, int]:
        state = self._world.state()
        return str(Phase.READY if state.phase is Phase.RETRYING else state.phase), state.epoch

    def renewal(self) -> tuple[int, int] | None:
        """How many ticks ago the live lease was renewed, no more than its period, and that period."""
        phase, epoch = self.job()
        entry = self._dispatcher.engine.seats[0].leases.get("a", epoch)
        if phase != LEASED:
            assert entry is None
            return None
        age_ms = self._dispatcher.clock.mono_ms() - entry.read_at_ms
        return min(age_ms, entry.period_ms) // TICK_MS, entry.period_ms // TICK_MS


def play(production: Production, before: State, step: Step) -> list[tuple[str, int]]:
    """Let production do what the model does in a step; return the notices that it sends."""
    was, now = before.dispatchers[0], step.state.dispatchers[0]
    if step.text == TICK:
        return production.tick()
    if now.position > was.position:
        return production.read(before.log[was.position])
    if now.job.epoch > was.job.epoch:
        return production.grant()
    if now.awaits and not was.awaits:
        return production.send_echo()
    return []  # the worker's, or a record on its way


def sent(before: State, after: State) -> list[tuple[str, int]]:
    """Return the notices that got into the inbox in a step."""
    old, new = before.workers[0].inbox, after.workers[0].inbox
    return [(notice.kind, notice.epoch) for notice in new[len(old) :]]


def ways(model: Model) -> Iterator[Path]:
    """Go through some ways to each kind of step that the dispatcher takes, the last states of each being that step."""
    steps: dict[str, list[tuple[int, State]]] = defaultdict(list)
    explored = Exploration(model)
    for number, before, step in explored.steps():
        if step.text != TICK and step.state.dispatchers[0] is not before.dispatchers[0]:
            steps[step.text].append((number, step.state))
        if len(explored.states) == STATES:
            break
    for found in steps.values():
        for number, after in found[:: max(1, len(found) // WAYS)]:
            yield (*explored.path(number), after)


def disagreement(rules: Rules) -> str:
    """Return a step after which production differs from the model, an empty string if there is none."""
    model = Model(rules, BOUNDS)
    for path in ways(model):
        production = Production()
        for before, after in pairwise(path):
            step = step_between(model, before, after)
            notices = play(production, before, step)
            if not agree(production, before, step.state, notices):
                return step.text
    return ""


def agree(production: Production, before: State, after: State, notices: list[tuple[str, int]]) -> bool:
    """Say whether production is where the model is, and has sent what it has."""
    job, renewal = after.job, after.dispatchers[0].renewal
    told_already = [(notice.kind, notice.epoch) for notice in before.workers[0].inbox[-1:]]
    return (
        production.job() == (job.phase, job.epoch)
        and production.renewal() == (renewal[1:] if renewal else None)
        and notices in (sent(before, after), told_already)
    )


def test_production_does_what_the_model_does():
    assert disagreement(Rules()) == ""


@pytest.mark.parametrize("rule", KEPT_BY_THE_DISPATCHER)
def test_without_a_rule_of_the_dispatcher_they_differ(rule):
    assert disagreement(Rules([rule]))
