"""The job state machine: one table, and the one function that moves a job along it.

    scheduled, blocked, ready, leased, retrying  |  succeeded, failed, cancelled, expired

A job is *live* in the first five states and *ended* in the last four. `leased` is left only by a report of
the lease's own epoch or by its expiry (docs/DESIGN.md, section 7). A late `done` of the latest epoch may
complete a job that already went back to `ready` or `retrying`, as long as no higher epoch was granted.
An illegal move raises `IllegalMove` and changes nothing.
"""

from enum import StrEnum
from typing import Final

import msgspec

from scheduler.core import bounds


class Phase(StrEnum):
    """The state of a job."""

    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    READY = "ready"
    LEASED = "leased"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


SCHEDULED, BLOCKED, READY, LEASED, RETRYING, SUCCEEDED, FAILED, CANCELLED, EXPIRED = Phase
"""The members by themselves, for what runs for every job: looking one up in its Enum takes 70 ns, up to Python 3.11."""

LIVE: Final = frozenset({Phase.SCHEDULED, Phase.BLOCKED, Phase.READY, Phase.LEASED, Phase.RETRYING})
ENDED: Final = frozenset(Phase) - LIVE

_BORN: Final = frozenset({Phase.SCHEDULED, Phase.BLOCKED, Phase.READY, Phase.CANCELLED, Phase.EXPIRED})

MOVES: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.SCHEDULED: frozenset({Phase.READY, Phase.CANCELLED, Phase.EXPIRED}),
    Phase.BLOCKED: frozenset({Phase.READY, Phase.SCHEDULED, Phase.CANCELLED, Phase.EXPIRED}),
    Phase.READY: frozenset({Phase.LEASED, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.EXPIRED}),
    Phase.LEASED: frozenset(
        {Phase.READY, Phase.RETRYING, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED},
    ),
    # ready, retrying -> failed: its record is gone, or a late `done` emitted what it may not.
    Phase.RETRYING: frozenset({Phase.READY, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.EXPIRED}),
    # A retry or replay on request starts a new life; otherwise ended is ended.
    Phase.SUCCEEDED: frozenset(),
    Phase.FAILED: frozenset({Phase.READY}),
    Phase.CANCELLED: frozenset({Phase.READY}),
    Phase.EXPIRED: frozenset({Phase.READY}),
}

STATUS: Final[dict[Phase, str]] = {
    Phase.SCHEDULED: "pending",
    Phase.BLOCKED: "pending",
    Phase.READY: "pending",
    Phase.LEASED: "running",
    Phase.RETRYING: "pending",
    Phase.SUCCEEDED: "completed",
    Phase.FAILED: "failed",
    Phase.CANCELLED: "cancelled",
    Phase.EXPIRED: "cancelled",
}
"""The plain word for each state, as people see it."""


class Ending(StrEnum):
    """Why a live lease is being ended: its worker has been asked to stop, and `done` may still win."""

    NONE = ""
    TIMEOUT = "timeout"
    CANCEL = "cancel"


class Grant(msgspec.Struct, frozen=True, gc=False):
    """The latest lease of a job. `token` is 16 random bytes and authorises; `epoch` rises and fences."""

    epoch: int
    token: bytes
    lease_ms: int  # L
    timeout_ms: int
    worker: str
    boot_id: bytes
    offer: int  # sequence of the offer it answers
    pool: str
    inbox: int  # partition of the worker's inbox
    granted_at_ms: int
    started: bool = False
    ending: Ending = Ending.NONE


class ErrorInfo(msgspec.Struct, frozen=True, gc=False):
    """Why a run failed, at most `bounds.ERROR_MAX_BYTES` together."""

    error_class: str = ""
    message: str = ""
    frames: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """How one lease of a job ended other than by success."""

    at_ms: int
    attempt: int
    epoch: int
    outcome: str  # failed, timeout, lost, undelivered, released:<reason>, snoozed
    worker: str
    release: str = ""  # the worker's code release (JOBS_RELEASE)
    error: ErrorInfo | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """One line of a job's timeline. What the rest of the state already tells is not repeated here."""

    at_ms: int
    event: str
    text: str = ""


class History(msgspec.Struct, frozen=True, gc=False):
    """What went other than planned; absent from a job whose first run is still to come or went well."""

    attempt: int = 0  # failures and timeouts so far, bound `max_attempts`
    losses: int = 0
    undelivered: int = 0
    releases: int = 0
    snoozes: int = 0
    attempts: tuple[Attempt, ...] = ()
    timeline: tuple[Event, ...] = ()
    timeline_dropped: int = 0
    stale_epoch: int = 0  # the last epoch whose refused report is on the timeline

    @property
    def suspect(self) -> bool:
        """Say whether the job may be what its workers die of: it shares none with another suspect.

        A lease that was never delivered tells little, for a notice can get lost. Two tell of a worker that died
        sooner than it could beat; if nobody was suspected, all that were leased to it would go on dying together.
        """
        return self.losses > 0 or self.undelivered >= bounds.UNDELIVERED_SUSPECT


NO_HISTORY: Final = History()


class End(msgspec.Struct, frozen=True, gc=False):
    """How a job ended; `drop_at_ms` is when its state may go."""

    at_ms: int
    drop_at_ms: int
    reason: str = ""  # of failed, cancelled, expired: a closed list, see `reasons`
    error: ErrorInfo | None = None
    result: bytes = b""
    result_omitted: str = ""
    stub: bool = False  # only state, digest and end are left: it holds the idempotency key


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """What a job was taken in with. Its states share one, which the codec counts on: it is encoded once."""

    band: int
    tenant: str
    queue: str
    type: str
    priority: int
    digest: bytes  # of the content, see `digest`
    submitted_at_ms: int  # append time of the submit record; with `offset` the job's sequence
    offset: int
    max_attempts: int
    timeout_ms: int
    has_key: bool  # submitted under an idempotency key
    labels: dict[str, str] = {}
    expires_at_ms: int = 0


class JobState(msgspec.Struct, frozen=True, gc=False):
    """Everything the scheduler knows about a job but its spec. Written whole at each change."""

    job_id: str
    admitted: Admitted
    phase: Phase
    due_ms: int = 0  # scheduled, retrying: when it becomes ready
    tier: int = 0  # retrying: 1 + index of the retry topic that holds it, 0 = a local timer does
    epoch: int = 0  # the latest epoch granted, kept when `grant` goes
    grant: Grant | None = None
    history: History = NO_HISTORY
    end: End | None = None
    checkpoint: bytes = b""


class IllegalMove(AssertionError):
    """A move that the table does not have: a bug of ours, never the world's."""


def born(phase: Phase) -> Phase:
    """Return `phase` if a job may begin in it."""
    if phase not in _BORN:
        raise IllegalMove(f"no job begins as {phase}")
    return phase


def move(state: JobState, to: Phase, /, **changes: object) -> JobState:
    """Return `state` moved to the phase `to` with `changes` applied."""
    if to not in MOVES[state.phase]:
        raise IllegalMove(f"{state.job_id}: {state.phase} -> {to}")
    return msgspec.structs.replace(state, phase=to, **changes)


def grant_of(state: JobState) -> Grant:
    """Return the latest grant of a job that is leased, or was."""
    if state.grant is None:
        raise AssertionError(f"{state.job_id}: leased without a grant")
    return state.grant
