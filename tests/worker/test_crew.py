"""The children of a worker as its parent holds them: real processes, and no session."""

import selectors
from collections.abc import Callable, Iterator

import pytest

from scheduler.core.notices import Lease
from scheduler.core.spec import JobSpec
from scheduler.worker.actions import StartRun
from scheduler.worker.clock import mono_ms
from scheduler.worker.crew import Crew, CrewConfig, CrewEvent, Gone
from scheduler.worker.deadlines import DeadlineTable
from scheduler.worker.wire import Finished
from tests.worker.workers import BOOT_ID, HERE

FAR_MS = 60_000
PATIENCE_MS = 20_000


class Held:
    """A crew, and what happened to its runs."""

    def __init__(self, table: DeadlineTable) -> None:
        self.selector = selectors.DefaultSelector()
        self.crew = Crew(CrewConfig("jobs_app:app", slots=1), self.selector, table)
        self.events: list[CrewEvent] = []

    def wait(self) -> None:
        """Wait for a child to say something, and leave it unheard."""
        woken = self.selector.select(PATIENCE_MS / 1_000)
        assert woken, "no child says anything"
        for key, _ in woken:
            key.data()

    def until(self, done: Callable[[], bool]) -> None:
        until_ms = mono_ms() + PATIENCE_MS
        self.events += self.crew.attend(mono_ms())
        while not done():
            now_ms = mono_ms()
            assert now_ms < until_ms, f"still not so; until now {self.events}"
            for key, _ in self.selector.select(
                max(min(self.crew.next_ms(now_ms), until_ms) - now_ms, 0) / 1_000
            ):
                key.data()
            self.events += self.crew.attend(mono_ms())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    monkeypatch.chdir(HERE / "apps")
    table = DeadlineTable.new()
    held = Held(table)
    yield held
    held.crew.kill_all()
    held.until(lambda: held.crew.empty)
    held.selector.close()
    table.close()


def run_of(number: int, type_: str, payload: bytes) -> StartRun:
    spec = JobSpec(f"job-{number}", "acme", "default", type_, payload)
    lease = Lease(BOOT_ID, spec.job_id, 1, b"t" * 16, 1, 1, 20_000, FAR_MS, 0, False, 5, b"", b"")
    return StartRun(number, lease, spec, mono_ms() + FAR_MS)


def test_gone_follows_the_kill_of_a_run_whose_end_was_not_heard_yet(held):
    # Else the session, which no longer wants to hear how a killed run ended, would hold its lease for ever.
    held.until(lambda: held.crew.capacity == 1)
    held.crew.start(run_of(1, "t.add", b'{"a": 1, "b": "x"}'), mono_ms())
    held.wait()
    held.crew.kill(1)
    held.until(lambda: any(isinstance(event, Gone) for event in held.events))
    told = [event for event in held.events if isinstance(event, Finished | Gone)]
    assert [type(event) for event in told] == [Finished, Gone]
    assert told[1].runs == (1,)
