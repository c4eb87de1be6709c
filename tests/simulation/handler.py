"""What the handlers of a simulated application do: each run is planned when it is leased."""

import random

import msgspec

from scheduler.codec.job import encode_job
from scheduler.core.notices import Lease
from scheduler.core.reports import Emit, Verdict
from scheduler.core.spec import JobSpec

EMIT_TOPIC = "made"


class Plan(msgspec.Struct, frozen=True):
    """One run: how long it takes and how it ends. `heeds`: it leaves when it is asked to."""

    run_ms: int
    result: bytes
    saves_ms: tuple[int, ...] = ()
    verdict: Verdict | None = None
    snooze_ms: int = 0
    crashes: bool = False
    heeds: bool = True
    emits: tuple[Emit, ...] = ()


class Handlers:
    """All handlers of one world. While it is calm they are quick and succeed."""

    def __init__(
        self, chance: random.Random, run_ms: tuple[int, ...], failing: float, emitting: float
    ) -> None:
        self._chance = chance
        self._run_ms = run_ms
        self._failing = failing
        self._emitting = emitting
        self.calm = False
        self.children = 0

    def plan(self, lease: Lease) -> Plan:
        chance = self._chance
        result = f"{lease.job_id}:{lease.epoch}".encode()
        if self.calm:
            return Plan(20, result)
        run_ms = chance.choice(self._run_ms)
        saves = (run_ms // 3, run_ms // 2) if run_ms > 2_000 and chance.random() < 0.4 else ()
        heeds = chance.random() < 0.8
        if chance.random() < self._failing:
            return self._failed(Plan(run_ms, result, saves, heeds=heeds))
        emits = self._emits(lease) if chance.random() < self._emitting else ()
        return Plan(run_ms, result, saves, heeds=heeds, emits=emits)

    def _failed(self, plan: Plan) -> Plan:
        chance, replace = self._chance, msgspec.structs.replace
        how = chance.choice(("retry", "retry", "retry", "fail", "cancel", "snooze", "crash"))
        if how == "snooze":
            return replace(plan, snooze_ms=chance.choice((10, 3_000, 40_000)))
        if how == "crash":
            return replace(plan, crashes=True)
        return replace(plan, verdict=Verdict(how))

    def _emits(self, lease: Lease) -> tuple[Emit, ...]:
        """Emit a message, and at times a job."""
        message = Emit(EMIT_TOPIC, lease.job_id.encode(), f"{lease.job_id}:{lease.epoch}".encode())
        if lease.job_id.startswith("child") or self._chance.random() < 0.5:
            return (message,)
        self.children += 1
        job_id = f"child-{self.children}"
        spec = JobSpec(job_id, "t", "q", "x.run", b"{}")
        return message, Emit("", job_id.encode(), encode_job(spec))
