"""What truly happened, told by nobody's word: what was submitted, committed, sent and run. It checks each of these.

`committed` hears of each transaction at the moment it commits, so whatever it finds is found in the event that did
it. A violation names the invariant that is broken.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from scheduler.codec.job import decode_job
from scheduler.codec.lifecycle import decode_lifecycle
from scheduler.codec.meta import decode_meta
from scheduler.codec.notices import decode_notice
from scheduler.codec.state import decode_state
from scheduler.core import keys, keyspace
from scheduler.core.inputs import Meta
from scheduler.core.job import ENDED, Ending, Grant, JobState, Phase, grant_of
from scheduler.core.notices import Lease
from scheduler.core.reports import Emit
from scheduler.dispatcher.engine_clock import AHEAD_MAX_MS, ECHO_EVERY_MS
from scheduler.dispatcher.ports import Outgoing
from scheduler.testing.memory_broker import Stored
from tests.dispatcher.checks import lives_again, reachable
from tests.simulation.broker import Committed
from tests.simulation.clock import DRIFT_PPM, MILLION
from tests.simulation.timeline import Timeline
from tests.simulation.violation import require

EARLY_MS = AHEAD_MAX_MS + 2 * ECHO_EVERY_MS * DRIFT_PPM // MILLION
"""How much too early a job may start: a wall clock counts as right up to `AHEAD_MAX_MS` ahead of the brokers'.

How late the brokers have it is counted by a monotonic clock since the last echo. Echoes come once a minute, or a
little later from a dispatcher that was stopped or cannot read; and clocks drift here a hundred times as fast as real ones.
"""

WAITING = (Phase.SCHEDULED, Phase.RETRYING)
REACH = reachable()


class Running(msgspec.Struct, eq=False):
    """A run, from when its child gets it until nothing of it is left. `result` is what it will report."""

    worker: str
    job_id: str
    epoch: int
    token: bytes
    started_ms: int
    result: bytes
    emits: tuple[Emit, ...] = ()


class Ledger:
    """Everything that must hold of jobs, over the whole history of one world."""

    def __init__(self, timeline: Timeline, shards: int, note: Callable[[str, str], None]) -> None:
        self._timeline = timeline
        self._note = note
        self._shards = shards
        self.accepted: dict[str, int] = {}
        """Every job that some submit topic has, by id, with its `run_at`."""
        self.states: dict[str, JobState] = {}
        self.specs: dict[str, None] = {}
        self.metas: dict[int, Meta] = {}
        self.ends: Counter[str] = Counter()
        self.ended_as: dict[str, Phase] = {}
        self.lives: Counter[str] = Counter()
        self.wanted_emits: list[tuple[bytes, bytes]] = []
        self.runs = 0
        self._forgotten: dict[
            str, tuple[int, int]
        ] = {}  # until when the last life was to be kept, and its epoch
        self.dropped = 0
        self._running: dict[str, list[Running]] = {}
        self._results: dict[tuple[str, int], Running] = {}
        self._emitted: set[str] = set()  # jobs that some run would submit
        self._sent: set[tuple[str, int]] = set()
        self._undelivered: list[tuple[str, int]] = []
        self._last_offsets: dict[int, int] = {}

    # -- submits -----------------------------------------------------------------------------------

    def submitted(self, job_id: str, run_at_ms: int) -> None:
        self.accepted.setdefault(job_id, run_at_ms)

    # -- runs --------------------------------------------------------------------------------------

    def starts(self, run: Running) -> None:
        """Take note of a run; it must be the only one, under a live lease, and not too early."""
        now_ms, job_id = self._timeline.ms, run.job_id
        who = f"{job_id} epoch {run.epoch} at {run.worker}"
        for other in self._running.get(job_id, ()):
            require(False, "no two runs overlap", f"{who}, while epoch {other.epoch} runs at {other.worker}")
        state = self.states.get(job_id)
        live = state is not None and state.phase is Phase.LEASED and state.epoch == run.epoch
        shown = f"{state.phase} epoch {state.epoch}" if state else "unknown"
        require(live, "runs start under live leases", f"{who}, but it is {shown}")
        require((job_id, run.epoch) not in self._results, "an epoch is run once", who)
        due_ms = self.accepted.get(job_id, 0)
        require(now_ms >= due_ms - EARLY_MS, "no job starts early", f"{who}, {due_ms - now_ms} ms early")
        self._running.setdefault(job_id, []).append(run)
        self._results[job_id, run.epoch] = run
        self._emitted.update(emit.key.decode() for emit in run.emits if not emit.topic)
        self.runs += 1

    def is_over(self, run: Running) -> None:
        running = self._running.get(run.job_id, [])
        if run in running:
            running.remove(run)
            if not running:
                del self._running[run.job_id]

    def revoked(self, worker: str, job_id: str, epoch: int) -> None:
        """A revoke ends a run: its lease must not live, or be ending."""
        state = self.states.get(job_id)
        if state is None or state.phase is not Phase.LEASED or state.epoch != epoch:
            return
        ending = grant_of(state).ending
        require(ending is not Ending.NONE, "no live run is revoked", f"{job_id} epoch {epoch} at {worker}")

    # -- notices -----------------------------------------------------------------------------------

    def released(self, record: Outgoing) -> None:
        """A dispatcher hands a notice to its producer."""
        notice = decode_notice(record.value)
        if isinstance(notice, Lease):
            self._note("lease", f"{notice.job_id} epoch {notice.epoch} leaves")
            self._sent.add((notice.job_id, notice.epoch))

    # -- transactions ------------------------------------------------------------------------------

    def committed(self, owner: str, records: Committed) -> None:
        for (topic, partition), entries in records.items():
            if topic == "changelog":
                self._changelog(owner, partition, entries)
            elif topic == "lifecycle":
                for _, stored in entries:
                    self._told(stored)

    def _told(self, stored: Stored) -> None:
        told = decode_lifecycle(stored.value)
        if told.event not in ("conflict", "refused"):
            self.ends[told.job_id] += 1
            self.ended_as[told.job_id] = Phase(told.event)
            require(
                self.ends[told.job_id] <= self.lives[told.job_id] + 1,
                "a job ends once",
                f"{told.job_id} as {told.event}",
            )

    def _changelog(self, owner: str, shard: int, entries: list[tuple[int, Stored]]) -> None:
        require(
            entries[0][0] > self._last_offsets.get(shard, -1),
            "transactions commit in the order of the log",
            f"{owner} in shard {shard} at {entries[0][0]}",
        )
        self._last_offsets[shard] = entries[-1][0]
        values = {stored.key or b"": stored.value for _, stored in entries}
        before = self.metas.get(shard)
        meta = self._meta(owner, shard, values)
        for key, value in values.items():
            if key.startswith(keyspace.STATE):
                self._state(shard, key[1:].decode(), value, before, meta)
            elif key.startswith(keyspace.SPEC):
                self._spec(key[1:].decode(), value)

    def _meta(self, owner: str, shard: int, values: dict[bytes, bytes | None]) -> Meta:
        require(
            keyspace.META in values, "each transaction carries the meta of its shards", f"{owner} {shard}"
        )
        meta, before = decode_meta(values[keyspace.META]), self.metas.get(shard)
        self.metas[shard] = meta
        if before is None:
            return meta
        if before.owner != owner:
            others = [key for key in values if key != keyspace.META]
            require(
                not others,
                "only who claimed a shard last writes to it",
                f"{owner} after {before.owner} to {shard}: {others}",
            )
        back = [
            f"{topic} {before.positions[topic]} -> {offset}"
            for topic, offset in meta.positions.items()
            if offset < before.positions.get(topic, 0)
        ]
        require(not back, "positions never go back", f"shard {shard}: {', '.join(back)}")
        require(meta.epoch >= before.epoch, "epochs rise", f"meta of shard {shard}")
        return meta

    def _spec(self, job_id: str, value: bytes | None) -> None:
        if value is None:
            self.specs.pop(job_id, None)
        else:
            self.specs[job_id] = None

    def _state(self, shard: int, job_id: str, value: bytes | None, was: Meta | None, meta: Meta) -> None:
        before = self.states.get(job_id)
        state = decode_state(value) if value is not None else None
        if state is None or (before is not None and lives_again(before, state)):
            self._dropped(job_id, before, meta)
            before = None
        if state is None:
            return
        if before is None or before.phase is not state.phase:
            self._note(
                meta.owner,
                f"{job_id}: {before.phase if before else 'new'} -> {state.phase}, epoch {state.epoch}",
            )
        self.states[job_id] = state
        if before is None:
            self._admitted(shard, state)
        else:
            self._moved(before, state, meta)
        if state.epoch and (before is None or state.epoch != before.epoch):
            self._granted(shard, state, was, meta)
        if state.phase is Phase.SUCCEEDED and (before is None or before.phase is not Phase.SUCCEEDED):
            self._completed(state)

    def _admitted(self, shard: int, state: JobState) -> None:
        job_id = state.job_id
        known = job_id in self.accepted or job_id in self._emitted
        require(known, "only what was submitted is admitted", job_id)
        require(
            keys.shard_of(job_id, self._shards) == shard,
            "a job lives in its home shard",
            f"{job_id} in {shard}",
        )
        forgotten = self._forgotten.get(job_id)
        if forgotten is not None:
            require(
                state.admitted.submitted_at_ms > forgotten[0],
                "a job ends once",
                f"{job_id} lives again by a submit from before its keep time was over",
            )
            self.lives[job_id] += 1

    def _moved(self, before: JobState, state: JobState, meta: Meta) -> None:
        job_id = state.job_id
        step = f"{job_id}: {before.phase} epoch {before.epoch} -> {state.phase} epoch {state.epoch}"
        require(state.phase in REACH[before.phase], "states move as the table says", step)
        require(state.epoch >= before.epoch, "epochs rise", step)
        if state.epoch == before.epoch and before.grant and state.grant:
            require(state.grant.token == before.grant.token, "a lease keeps its token", step)
        if before.phase in WAITING and state.phase in (Phase.READY, Phase.LEASED):
            early_ms = before.due_ms - meta.written_at_ms
            require(early_ms <= 0, "no job starts early", f"{step}, due in {early_ms} ms")
        if before.phase is Phase.LEASED and (state.phase is not Phase.LEASED or state.epoch != before.epoch):
            self._lease_ended(before, state, step)
        if state.checkpoint != before.checkpoint and state.checkpoint:
            epoch = int(state.checkpoint.split(b":")[1])
            require(epoch >= before.epoch, "a checkpoint is of the live lease", f"{step}, of epoch {epoch}")

    def _lease_ended(self, before: JobState, state: JobState, step: str) -> None:
        for run in self._running.get(state.job_id, ()):
            require(run.epoch != before.epoch, "no lease ends under its run", f"{step}, at {run.worker}")
        if state.history.undelivered > before.history.undelivered:
            self._undelivered.append((state.job_id, before.epoch))

    def turn_over(self) -> None:
        """A turn is over: what has expired undelivered must have left, if only in this very turn."""
        for job_id, epoch in self._undelivered:
            require(
                (job_id, epoch) in self._sent,
                "every lease is sent before it expires",
                f"{job_id} epoch {epoch}",
            )
        self._undelivered.clear()

    def turn_cut_short(self) -> None:
        """The process of a turn died: what it committed may not have left."""
        self._undelivered.clear()

    def _granted(self, shard: int, state: JobState, was: Meta | None, meta: Meta) -> None:
        lowest, highest = was.epoch if was else 0, meta.epoch
        require(
            lowest < state.epoch <= highest,
            "epochs rise",
            f"{state.job_id}: epoch {state.epoch}, not in {lowest + 1}..{highest} of shard {shard}",
        )
        forgotten = self._forgotten.get(state.job_id)
        require(forgotten is None or state.epoch > forgotten[1], "epochs rise", f"{state.job_id} lives again")

    def _completed(self, state: JobState) -> None:
        run = self._results.get((state.job_id, state.epoch))
        result = state.end.result if state.end else b""
        genuine = run is not None and run.result == result and run.token == token_of(state.grant)
        require(
            genuine,
            "completions come from who holds the lease",
            f"{state.job_id} epoch {state.epoch}: {result!r}",
        )
        assert run is not None
        self.wanted_emits += [(emit.key, emit.value) for emit in run.emits if emit.topic]
        for emit in run.emits:
            if not emit.topic:
                self.submitted(decode_job(emit.value).job_id, 0)

    def _dropped(self, job_id: str, before: JobState | None, meta: Meta) -> None:
        require(before is not None, "a job is dropped once", job_id)
        assert before is not None
        end = before.end
        require(
            before.phase in ENDED and end is not None,
            "only ended jobs are dropped",
            f"{job_id} {before.phase}",
        )
        assert end is not None
        require(meta.written_at_ms >= end.drop_at_ms, "ended jobs are kept", job_id)
        self._forgotten[job_id] = (end.drop_at_ms, before.epoch)
        self.dropped += 1
        del self.states[job_id]

    # -- at the end --------------------------------------------------------------------------------

    def unended(self) -> list[str]:
        """Return the accepted jobs that have not ended."""
        return [job_id for job_id in self.accepted if job_id not in self.ended_as or self._lives(job_id)]

    def running(self) -> list[Running]:
        return [run for runs in self._running.values() for run in runs]

    def _lives(self, job_id: str) -> bool:
        state = self.states.get(job_id)
        return state is not None and state.phase not in ENDED


def token_of(grant: Grant | None) -> bytes:
    return grant.token if grant is not None else b""
