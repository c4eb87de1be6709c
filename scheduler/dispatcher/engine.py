"""The dispatcher: turns over the shards that this process holds (docs/DESIGN.md, section 5).

    read -> clock -> decide -> commit -> apply -> release

Nothing that a turn decides is true, visible or sent before its transaction has committed. A turn that fails
is dropped as a whole: inputs are rewound to where it began, memory is read back from the stores, and every
shard adopts its leases again.
"""

import logging
from collections.abc import Callable
from functools import partial

import msgspec

from scheduler.codec.confluent import Confluent
from scheduler.core import bounds
from scheduler.core.fleet import Fleet, new_fleet
from scheduler.core.granting import grant_all
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Meta
from scheduler.core.moment import Moment
from scheduler.core.outputs import MessageOut
from scheduler.core.shard import Shard
from scheduler.core.wakeups import adopt_leases, wake_due
from scheduler.dispatcher import commit
from scheduler.dispatcher.adopting import Adopting
from scheduler.dispatcher.care import handed_over
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine_clock import EngineClock
from scheduler.dispatcher.housekeeping import Housekeeping
from scheduler.dispatcher.intake import Intake, quarantine_orphan
from scheduler.dispatcher.ports import (
    Budget,
    Chance,
    Changelog,
    Clock,
    Fenced,
    Log,
    LogError,
    MustAbort,
    OutcomeUnknown,
    Polled,
    PositionLost,
    Stores,
)
from scheduler.dispatcher.reading import InputCrashed, Reading
from scheduler.dispatcher.restoring import Done, Restorer
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.signals import Signals
from scheduler.dispatcher.suspicion import Suspicion
from scheduler.dispatcher.view import StoreView
from scheduler.dispatcher.writing import Written

_log = logging.getLogger(__name__)

_FENCE_AGAIN_MS = 10_000  # the transaction timeout: by then the coordinator has ended it anyway


class World(msgspec.Struct, frozen=True):
    """Everything outside: what an engine reads, writes and asks."""

    log: Log
    changelog: Changelog
    stores: Stores
    clock: Clock
    chance: Chance
    signals: Signals
    failpoint: Callable[[str], None]
    confluent: Confluent | None = None


class Engine:
    """One dispatcher process. `turn` is called again and again, by `run` or by a simulation."""

    def __init__(self, config: Config, world: World) -> None:
        """Begin without shards; they come with the group's assignments."""
        ground = config.ground
        self._config = config
        self._world = world
        self._log = world.log
        self._clock = EngineClock(world.clock)
        self._fleet: Fleet = new_fleet(world.log.owner, ground.shards, config.settings, config.timing)
        self._seats: dict[int, Seat] = {}
        self._turns = 0
        self._reopening = False
        self._last_echoes: dict[int, int] = {}  # of shards held before
        self._fence_again_ms: dict[str, int] = {}  # when a last owner may be fenced again
        self._suspicion = Suspicion()
        self._intake = Intake(ground.prefix, ground.shards, config.settings, world.confluent)
        self._adopting = Adopting(self._log, self._clock)
        self._reading = Reading(config, self._log, self._clock, self._intake, self._suspicion, self._adopting)
        self._restorer = Restorer(ground, world.stores, world.changelog)
        self._housekeeping = Housekeeping(config, self._log, self._clock)

    @property
    def seats(self) -> dict[int, Seat]:
        """The shards held here."""
        return self._seats

    def run(self, stopping: Callable[[], bool]) -> None:
        """Take turns until `stopping`, then leave cleanly."""
        try:
            while not stopping():
                self.turn()
        except BaseException:
            self.close()  # nothing is committed: the turn may be half decided
            raise
        self.leave()

    def turn(self) -> None:
        """Take one turn. What the log says of it is dealt with here; what is left ends the process."""
        try:
            if self._reopening and not self._reopened():
                return
            self._turn()
        except InputCrashed as crash:
            _log.exception("deciding crashed at %s", crash)
            self._suspicion.blame(crash.record)
            self._recover(self._drop_turn)
        except MustAbort as error:
            self._recover(partial(self._aborted, error))
        except PositionLost as error:
            self._lost_position(error)
        except OutcomeUnknown as error:
            _log.warning("outcome of a commit unknown, restoring: %s", error)
            self._start_over("unknown", keep_renewals=True)
        except Fenced as error:
            _log.warning("fenced, starting over: %s", error)
            self._start_over("fenced", keep_renewals=False)

    def _recover(self, how: Callable[[], None]) -> None:
        try:
            how()
        except PositionLost as error:
            self._lost_position(error)
        except LogError as worse:
            _log.warning("that failed too, starting over: %s", worse)
            self._start_over("fenced", keep_renewals=False)

    def _lost_position(self, error: PositionLost) -> None:
        # The input is held: nothing more of it is read, nothing is skipped, everything else goes on.
        _log.error("held: %s", error)
        self._world.signals.failed("position_lost")

    def leave(self) -> None:
        """Commit what was read, and that this owner left cleanly; then close."""
        try:
            self._say_farewell()
        except LogError as error:
            _log.warning("the last commit failed, which loses nothing: %s", error)
        self.close()

    def close(self) -> None:
        """Close the stores and leave the group."""
        for number in list(self._seats):
            self._lose(number)
        self._log.close()
        self._world.changelog.close()

    # -- the turn ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        restoring = self._restore()
        polled = self._log.poll(
            self._budget(), 0 if restoring or self._reading.pending else self._config.wait_ms
        )
        metadata = self._log.metadata()
        self._membership(polled)
        mono_ms = self._clock.mono_ms()
        known = self._clock.known
        moment = Moment(self._clock.now_ms(mono_ms), mono_ms, self._world.chance)
        self._reading.begin(self._seats, polled)
        self._reading.take(self._seats, moment)
        if self._clock.known is not known:
            # The first own echo has just ended an adoption; timers must not go by a wall clock that may run ahead.
            moment = Moment(self._clock.now_ms(mono_ms), mono_ms, self._world.chance)
        self._reading.note_ends(self._seats, moment)
        self._decide(moment)
        self._commit(moment, metadata)
        self._adopting.send_echoes(self._seats, mono_ms)
        self._housekeeping.run(self._seats, moment)

    def _budget(self) -> Budget:
        room = max(1, self._config.turn_records - len(self._reading.pending))
        return Budget(room, self._config.turn_bytes)

    def _decide(self, moment: Moment) -> None:
        active = self._active()
        timers_left = drops_left = bounds.TURN_TIMERS
        for seat in active:
            timers_left -= wake_due(seat.shard, moment, timers_left)
            drops_left -= self._housekeeping.tidy(seat, moment, drops_left)
        self._apply_local_commands(moment)
        if active:
            shards = {seat.number: seat.shard for seat in active}
            grant_all(self._fleet, shards, moment, self._config.turn_records)

    def _active(self) -> list[Seat]:
        """Return the seats that may grant, another one first each turn: they share the turn's timers."""
        active = [seat for seat in self._seats.values() if seat.stage is Stage.ACTIVE]
        self._turns += 1
        first = self._turns % len(active) if active else 0
        return active[first:] + active[:first]

    def _apply_local_commands(self, moment: Moment) -> None:
        """Act on commands between shards held here at once; only the others go over Kafka."""
        for seat in [seat for seat in self._seats.values() if seat.reads]:
            for command in seat.shard.changes.take_commands(self._held):
                self._intake.apply_command(self._seats[command.shard].shard, moment, command.command)

    def _held(self, shard: int) -> bool:
        seat = self._seats.get(shard)
        return seat is not None and seat.reads

    def _commit(self, moment: Moment, metadata: object) -> None:
        held = [seat for seat in self._seats.values() if seat.stage is not Stage.RESTORING]
        seats = [seat for seat in held if seat.to_commit()]
        if not any(seat.must_commit(moment.mono_ms, self._config.positions_every_ms) for seat in seats):
            if not held or not self._housekeeping.owes_offsets(held, moment.mono_ms):
                self._suspicion.passed(self._reading.taken)
                return
            seats = seats or held[:1]
        member = self._log.member  # asks another thread: once a turn is enough
        parts = [(seat, self._written(seat, moment, member)) for seat in seats]
        claimed = [seat for seat in seats if seat.stage is Stage.CLAIMING]
        extra = self._housekeeping.other_offsets(held, moment.mono_ms)
        began_ms = self._clock.mono_ms()
        last = commit.commit(self._log, parts, metadata, self._world.failpoint, extra=extra)
        self._suspicion.passed(self._reading.taken)
        for seat in seats:
            self._world.signals.counted(seat.shard.changes.counts)
        notices = commit.apply(parts, last, moment.now_ms)
        self._fleet.offers.settle()
        self._reading.committed()
        self._world.failpoint("after_store")
        commit.release(self._log, notices)
        self._world.signals.committed(len(self._reading.taken), self._clock.mono_ms() - began_ms)
        for seat in claimed:
            seat.orphans = []
            self._adopting.claimed(seat)

    def _written(self, seat: Seat, moment: Moment, member: str) -> Written:
        ground = self._config.ground
        meta = Meta(
            LAYOUT,
            ground.cluster_id,
            ground.shards,
            ground.topic_ids,
            {TOPIC_OF[source]: offset for source, offset in seat.positions.items()},
            epoch=seat.shard.epoch,
            owner=self._log.owner,
            member=member,
            unclean=seat.care.unclean,
            careful=seat.care.coordinates,
            careful_crashes=seat.care.tries,
            written_at_ms=moment.now_ms,
        )
        return Written(seat.shard, meta, ground.lifecycle_partitions)

    def _say_farewell(self) -> None:
        mono_ms = self._clock.mono_ms()
        moment = Moment(self._clock.now_ms(mono_ms), mono_ms, self._world.chance)
        for seat in self._seats.values():
            if seat.reads:
                seat.care.reset()
                seat.shard.changes.durable = True
        self._commit(moment, self._log.metadata())

    # -- shards come and go ----------------------------------------------------------------------------

    def _membership(self, polled: Polled) -> None:
        # Nothing is decided yet in this turn, so a lost shard takes nothing down with it.
        for number in polled.lost:
            self._lose(number)
        for number in polled.gained:
            self._lose(number)
            last_echo = self._last_echoes.get(number, 0)
            self._seats[number] = Seat(number, self._config.timing, last_echo)
        if polled.lost or polled.gained:
            self._world.signals.rebalanced(sorted(self._seats))

    def _lose(self, number: int) -> None:
        seat = self._seats.pop(number, None)
        if seat is None:
            return
        self._restorer.stop(number)
        self._fleet.matcher.unload(number)
        self._reading.forget(number)
        self._suspicion.forget(number)
        seat.leases.clear()
        self._last_echoes[number] = seat.leases.last_echo
        if seat.store is not None:
            seat.store.close()

    def _restore(self) -> bool:
        """Begin and go on with restores; return whether any is under way."""
        self._begin_restores()
        if not self._restorer.running():
            return False
        mono_ms = self._clock.mono_ms()
        finished = self._restorer.slice(self._config.restore_slice_ms, self._wall_ms())
        members = self._members() if finished else frozenset()
        for done in finished:
            # An owner that is still a member gave the shard away; it did not die of it.
            meta = handed_over(done.meta) if done.meta.member in members else done.meta
            self._restored(self._seats[done.number], done, meta)
        self._world.failpoint("in_takeover")
        for number, held_by in self._restorer.held_back(mono_ms, self._config.held_back_ms):
            self._fence_holder(number, held_by, mono_ms)
        return True

    def _begin_restores(self) -> None:
        restoring = {restore.number for restore in self._restorer.running()}
        for seat in self._seats.values():
            if seat.stage is Stage.RESTORING and seat.number not in restoring:
                store, seat.store = seat.store, None
                try:
                    self._restorer.begin(seat.number, self._wall_ms(), store)
                except LogError as error:
                    _log.warning("shard %d can't be restored yet: %s", seat.number, error)
                    return  # the next turn asks again

    def _restored(self, seat: Seat, done: Done, meta: Meta) -> None:
        seat.store = done.store
        shard = Shard(seat.number, StoreView(done.store), self._fleet, seat.leases, epoch=meta.epoch)
        seat.orphans = done.orphans
        mono_ms = self._clock.mono_ms()
        seat.leases.keep_only({(state.job_id, state.epoch) for state in shard.live()})
        seat.restored(shard, meta, mono_ms)
        adopt_leases(shard, mono_ms)
        self._quarantine_orphans(seat)

    def _members(self) -> frozenset[str]:
        try:
            return self._log.members()
        except LogError as error:
            _log.warning("the group can't be asked, so the last owners count as dead: %s", error)
            return frozenset()

    def _quarantine_orphans(self, seat: Seat) -> None:
        for key in seat.orphans:
            quarantine_orphan(seat.shard, key[1:].decode(errors="replace"))

    def _fence_holder(self, number: int, meta: Meta | None, mono_ms: int) -> None:
        if meta is None or not meta.owner or meta.owner == self._log.owner:
            return
        if mono_ms < self._fence_again_ms.get(meta.owner, mono_ms):
            return  # it takes half a second, serves all shards of that owner, and may not be whose transaction it is
        self._fence_again_ms[meta.owner] = mono_ms + _FENCE_AGAIN_MS
        try:
            ended = self._log.fence_owner(meta.owner, meta.member)
        except LogError as error:
            _log.warning(
                "shard %d: the open transaction of %s can't be ended yet: %s", number, meta.owner, error
            )
            return
        if ended:
            _log.warning("shard %d: ended the open transaction of %s, which has left", number, meta.owner)

    # -- when a turn fails -----------------------------------------------------------------------------

    def _aborted(self, error: MustAbort) -> None:
        _log.warning("transaction aborted: %s", error)
        self._world.signals.failed("abort")
        self._log.abort()
        # Without a refused record the world is to blame (a broker away, a rebalance): the same again.
        if error.topic and not self._blame_emits(error):
            self._suspicion.failed(self._reading.taken)
        self._drop_turn()

    def _blame_emits(self, error: MustAbort) -> bool:
        """Blame a refused record on the job whose run emitted it; return whether it is certain which one that was.

        If several emitted to that topic under that key, their completions are suspected like any other inputs
        until they are taken alone.
        """
        blamed = {
            output.job_id
            for seat in self._seats.values()
            if seat.stage is not Stage.RESTORING
            for output in seat.shard.changes.outputs
            if isinstance(output, MessageOut) and (output.topic, output.key) == (error.topic, error.key)
        }
        if len(blamed) != 1:
            return False
        self._intake.refused_emits |= blamed
        return True

    def _drop_turn(self) -> None:
        """Undo everything since the last commit but what was read of renewals."""
        self._fleet.offers.give_back()
        self._fleet.matcher.forget()
        self._reading.rewind(self._seats)
        mono_ms = self._clock.mono_ms()
        for seat in self._seats.values():
            if seat.stage is Stage.RESTORING:
                continue
            seat.shard.dropped()
            adopt_leases(seat.shard, mono_ms)
            if seat.reads:
                self._adopting.begin(seat)
            else:
                self._quarantine_orphans(seat)

    def _start_over(self, why: str, *, keep_renewals: bool) -> None:
        """Believe nothing in memory: make the producer anew, then restore every shard to the end of its log."""
        self._world.signals.failed(why)
        self._fleet.offers.give_back()
        self._fleet.matcher.forget()
        self._reading.clear()
        for seat in self._seats.values():
            if not keep_renewals:
                seat.leases.clear()
            if seat.stage is not Stage.RESTORING:
                self._log.unfollow(seat.number)
                self._fleet.matcher.unload(seat.number)
                seat.reload()
        self._reopening = True

    def _reopened(self) -> bool:
        """Make the producer anew; return whether it answered. Brokers may be away for long, so it is asked again."""
        try:
            self._log.reopen()
        except LogError as error:
            _log.warning("no answer yet: %s", error)
            return False
        self._reopening = False
        return True

    def _wall_ms(self) -> int:
        return self._world.clock.wall_ms()
