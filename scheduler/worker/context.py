"""What a handler may ask and tell while it runs: `Context`, and `Run`, the port it does so through."""

import builtins
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from scheduler.client.durations import Duration, duration_ms
from scheduler.client.payloads import unfit
from scheduler.core import bounds
from scheduler.core.reports import Emit
from scheduler.worker.fitting import cut
from scheduler.worker.lifespan import NO_RESOURCES, Resources

if TYPE_CHECKING:
    from scheduler.client.request import Request

T = TypeVar("T")

_SHIELDABLE: Final = frozenset({"cancelled", "draining"})
"""Reasons that wait for a shield; nothing may run beyond its timeout or its lease."""


class Stopped(BaseException):
    """Raised by `ctx.check()` when the run has to end: cancelled, drained, or out of time.

    Not an `Exception`, like `asyncio.CancelledError` and for the same reason: a handler's `except Exception:`
    is there for the world's errors and would swallow it, and the run would then be killed instead of leaving
    through its `finally` blocks. Don't raise it yourself; `raise Cancel(...)` calls a job off.
    """

    def __init__(self, reason: str) -> None:
        """Keep the reason that `Run.stopping` gave."""
        super().__init__(reason)
        self.reason = reason


class Run(Protocol):
    """The run behind a `Context`. The worker implements it in the child, `scheduler.testing` in memory.

    Methods may be called from any thread of the child. None may need the handler's event loop to turn:
    an async handler calls `save` on it.
    """

    def save(self, data: bytes) -> None:
        """Make `data` (JSON) the checkpoint; return once it is durable. Raises `Stopped` if the run is over."""

    def progress(self, fraction: float, note: str) -> None:
        """Tell progress: 0 <= fraction <= 1, a note within `bounds.PROGRESS_NOTE_MAX_BYTES`. Never blocks."""

    def stopping(self) -> str:
        """Return why the run has to end (`cancelled`, `timeout`, `draining`, `lost`), or an empty string."""

    def remaining_s(self) -> float:
        """Return the seconds left until the run is ended, by its timeout or its lease, whichever is first."""

    def shield(self, seconds: float) -> None:
        """Ask not to be stopped by a cancel or a drain for that long from now; 0 ends it. Timeouts still end it."""


class RunInfo(msgspec.Struct, frozen=True):
    """What is known of a run when it starts.

    `checkpoint` is JSON, empty for none. `nominal_at_ms` is the instant the job was meant for, 0 if it names none.
    """

    job_id: str
    tenant: str
    type: str
    queue: str
    attempt: int  # 1 for the first run
    max_attempts: int
    epoch: int
    checkpoint: bytes = b""
    labels: dict[str, str] = {}
    nominal_at_ms: int = 0
    parents: dict[str, Any] = {}  # results by job id


class Message(msgspec.Struct, frozen=True):
    """A record for a topic of yours, published if and only if the completion that emits it is accepted.

    The topic must be on the `emits` list of the job's queue. A `str` key is sent as UTF-8.
    """

    topic: str
    value: bytes
    key: str | bytes = b""


class Context:
    """One run of one job. A handler gets it as its first parameter if that is annotated `Context`."""

    def __init__(self, info: RunInfo, run: Run, resources: Resources = NO_RESOURCES) -> None:
        """Take what is known, the run to speak through, and what the lifespans yielded."""
        self._info = info
        self._run = run
        self._resources = resources
        self._emits = _Emits()
        self._shields = 0
        self._checkpoint: Any = msgspec.json.decode(info.checkpoint) if info.checkpoint else None

    def __repr__(self) -> str:
        """Name the run; never its payload."""
        return f"<Context {self.type} {self.job_id} attempt {self.attempt} epoch {self.epoch}>"

    @property
    def job_id(self) -> str:
        """The job's id: the same in every run of it."""
        return self._info.job_id

    @property
    def tenant(self) -> str:
        """Whose job it is."""
        return self._info.tenant

    @property
    def type(self) -> str:
        """The job's type, `<app>.<function>`."""
        return self._info.type

    @property
    def queue(self) -> str:
        """The queue it was submitted to."""
        return self._info.queue

    @property
    def attempt(self) -> int:
        """Which attempt this is, 1 for the first."""
        return self._info.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the job has."""
        return self._info.max_attempts

    @property
    def epoch(self) -> int:
        """The fencing token: higher in every later run of this job. Give it to what you write to."""
        return self._info.epoch

    @property
    def checkpoint(self) -> Any:
        """What the last `save` kept, in this run or an earlier one; None if nothing."""
        return self._checkpoint

    @property
    def parents(self) -> Mapping[str, Any]:
        """The results of the jobs this one waited for, by id."""
        return self._info.parents

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels it was submitted with."""
        return self._info.labels

    @property
    def nominal_time(self) -> datetime:
        """The instant the job was meant for: its schedule's, or its `run_at`. `LookupError` if it has none."""
        if not self._info.nominal_at_ms:
            raise LookupError(
                f"{self.type} has no nominal time: it was submitted without run_at, delay or schedule"
            )
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self._info.nominal_at_ms)

    def get(self, kind: builtins.type[T]) -> T:
        """Return what a lifespan yielded, by its type. `LookupError` names what there is."""
        return self._resources.get(kind)

    def remaining(self) -> float:
        """Return the seconds until this run is ended from outside; negative once that is overdue."""
        return self._run.remaining_s()

    @property
    def stopping(self) -> str:
        """Why this run has to end soon (`cancelled`, `timeout`, `draining`, `lost`); empty while it need not."""
        return self._run.stopping()

    def check(self) -> None:
        """Leave the handler here, cleanly, if the run has to end: raises `Stopped`. Cheap enough for inner loops."""
        reason = self._run.stopping()
        if reason and not (self._shields and reason in _SHIELDABLE):
            raise Stopped(reason)

    def save(self, value: Any) -> None:
        """Make `value` the checkpoint, from which the next attempt starts; return when Kafka has it.

        `value` is anything that JSON holds, at most `bounds.CHECKPOINT_MAX_BYTES` encoded (`ValueError`).
        """
        problem = unfit(value)
        if problem is not None:
            raise ValueError(f"checkpoint {problem}")
        data = msgspec.json.encode(value)
        if len(data) > bounds.CHECKPOINT_MAX_BYTES:
            raise ValueError(f"checkpoint of {len(data)} bytes is above {bounds.CHECKPOINT_MAX_BYTES}")
        self._run.save(data)
        self._checkpoint = msgspec.json.decode(data)

    def progress(self, fraction: float, note: str = "") -> None:
        """Tell how far the run is: 0 to 1, and a short note. Goes out with the next heartbeat."""
        whole = 0.0 if math.isnan(fraction) else min(max(float(fraction), 0.0), 1.0)
        self._run.progress(whole, cut(note, bounds.PROGRESS_NOTE_MAX_BYTES))

    def emit(self, what: "Request[Any] | Message") -> None:
        """Publish a job or a message if and only if this run's success is accepted.

        At most `bounds.EMITS_MAX` of `bounds.EMITS_MAX_BYTES` together, else `ValueError`.
        """
        self._emits.add(_record(what) if isinstance(what, Message) else _submission(what))

    @property
    def emitted(self) -> tuple[Emit, ...]:
        """What `emit` collected, in order; for the worker, which sends it with the completion."""
        return tuple(self._emits.records)

    @contextmanager
    def shield(self, longest: Duration) -> Iterator[None]:
        """Keep a cancel or a drain from ending the run inside the block, for `longest` at most.

        The job's timeout and a lost lease still end it: nothing may run beyond those.
        """
        self._run.shield(duration_ms(longest) / bounds.SECOND_MS)
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            if not self._shields:
                self._run.shield(0)


class _Emits:
    def __init__(self) -> None:
        self.records: list[Emit] = []
        self._size_bytes = 0

    def add(self, record: Emit) -> None:
        size_bytes = self._size_bytes + len(record.topic) + len(record.key) + len(record.value)
        if len(self.records) >= bounds.EMITS_MAX:
            raise ValueError(f"a run may emit {bounds.EMITS_MAX} records, not more")
        if size_bytes > bounds.EMITS_MAX_BYTES:
            raise ValueError(f"emits of {size_bytes} bytes are above {bounds.EMITS_MAX_BYTES} together")
        self.records.append(record)
        self._size_bytes = size_bytes


def _record(message: Message) -> Emit:
    if not isinstance(message.value, bytes):
        raise TypeError(f"a message's value is bytes, not {type(message.value).__name__}")
    if not message.topic:
        raise ValueError("a message needs a topic")
    key = message.key.encode() if isinstance(message.key, str) else message.key
    return Emit(topic=message.topic, key=key, value=message.value)


def _submission(request: "Request[Any]") -> Emit:
    return Emit(topic="", key=request.id.encode(), value=request.encoded(), band=int(request.band))
