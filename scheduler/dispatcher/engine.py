"""The dispatcher: turns over the shards that this process holds (docs/DESIGN.md, section 5).

    read -> clock -> decide -> commit -> apply -> release

Nothing that a turn decides is true, visible or sent before its transaction has committed. A turn that fails
is dropped as a whole (`recovery`).
"""

import logging
from collections.abc import Callable

import msgspec

from scheduler.codec.confluent import Confluent
from scheduler.core import bounds
from scheduler.core.crash import JobCrashed
from scheduler.core.fleet import Fleet, new_fleet
from scheduler.core.granting import grant_all
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Meta
from scheduler.core.moment import Moment
from scheduler.core.wakeups import wake_due
from scheduler.dispatcher import commit
from scheduler.dispatcher.adopting import Adopting
from scheduler.dispatcher.blame import Blame
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine_clock import EngineClock
from scheduler.dispatcher.forgetting import Forgetting
from scheduler.dispatcher.housekeeping import Housekeeping
from scheduler.dispatcher.intake import Intake
from scheduler.dispatcher.last_owners import LastOwners
from scheduler.dispatcher.losses import Losses
from scheduler.dispatcher.ports import (
    Budget,
    Chance,
    Changelog,
    Clock,
    Fenced,
    Follower,
    Log,
    LogError,
    MustAbort,
    OutcomeUnknown,
    PositionLost,
    Roster,
    Stores,
    is_empty,
)
from scheduler.dispatcher.reading import InputCrashed, Reading
from scheduler.dispatcher.recovery import Recovery
from scheduler.dispatcher.restoring import Restorer
from scheduler.dispatcher.retired import Retired
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.seats import Seats
from scheduler.dispatcher.set_aside import SetAside
from scheduler.dispatcher.signals import Signals
from scheduler.dispatcher.standbys import NoStandbys, Standbys
from scheduler.dispatcher.suspicion import Suspicion
from scheduler.dispatcher.take_over import TakeOver
from scheduler.dispatcher.unpublishable import Unpublishable
from scheduler.dispatcher.writing import Written

_log = logging.getLogger(__name__)


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
    follower: Follower | None = None  # these two for standbys, if any are to be kept
    roster: Roster | None = None


class Engine:
    """One dispatcher process. `turn` is called again and again, by `run` or by a simulation."""

    def __init__(self, config: Config, world: World) -> None:
        """Begin without shards; they come with the group's assignments."""
        ground = config.ground
        log, signals = world.log, world.signals
        self._config = config
        self._world = world
        self._log = log
        self._clock = clock = EngineClock(world.clock)
        self._fleet: Fleet = new_fleet(log.owner, ground.shards, config.settings, config.timing)
        self._turns = 0
        self._rests_until_ms = 0  # while nothing comes in, timers and the like are looked at no sooner
        self._suspicion = Suspicion()
        unpublishable, set_aside = Unpublishable(), SetAside()
        self._intake = Intake(
            ground.prefix, ground.shards, config.settings, world.confluent, unpublishable, set_aside
        )
        self._adopting = Adopting(log, clock)
        self._reading = Reading(config, log, clock, self._intake, self._suspicion, self._adopting)
        retired = Retired()
        self._standbys = _standbys(config, world, clock, retired)
        self._restorer = Restorer(
            ground, world.stores, world.changelog, clock.mono_ms, self._standbys, retired
        )
        self._take_over = TakeOver(
            config,
            log,
            clock,
            self._fleet,
            self._restorer,
            LastOwners(log, signals),
            set_aside,
            world.failpoint,
        )
        self._membership = Seats(
            config.timing,
            self._fleet.matcher,
            self._reading,
            self._suspicion,
            self._restorer,
            retired,
            signals,
        )
        self._seats = self._membership.held
        blame = Blame(unpublishable, self._suspicion, set_aside)
        self._losses = Losses(log, signals, config.accepted_losses)
        self._recovery = Recovery(
            log, clock, signals, self._fleet, self._seats, self._reading, self._adopting, blame, self._losses
        )
        self._forgetting = Forgetting(config, log, clock)
        self._housekeeping = Housekeeping(config, log, clock, signals)

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
            if self._recovery.ready():
                self._turn()
        except InputCrashed as crash:
            self._recovery.crashed(crash)
        except JobCrashed as crash:
            self._recovery.job_crashed(crash)
        except MustAbort as error:
            self._recovery.aborted(error)
        except PositionLost as error:
            self._recovery.position_lost(error)
        except OutcomeUnknown as error:
            self._recovery.unknown(error)
        except Fenced as error:
            self._recovery.fenced(error)

    def leave(self) -> None:
        """Commit what was read, and that this owner left cleanly; then close."""
        try:
            self._say_farewell()
        except (LogError, JobCrashed) as error:
            _log.warning("the last commit failed, which loses nothing: %s", error)
        self.close()

    def close(self) -> None:
        """Close the stores and leave the group."""
        self._standbys.close()
        self._membership.lose_all()
        self._log.close()
        self._world.changelog.close()

    # -- the turn ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        restores = self._take_over.go_on(self._seats)
        if not restores:
            self._standbys.go_on(self._seats)
        hurried = restores or self._reading.has_left_over
        polled = self._log.poll(self._budget(), 0 if hurried else self._config.wait_ms)
        mono_ms = self._clock.mono_ms()
        rests = not hurried and mono_ms < self._rests_until_ms
        if rests and (is_empty(polled) or self._reading.gathers(self._seats, polled)):
            return
        self._rests_until_ms = mono_ms + self._config.rest_ms
        self._membership.follow(polled)
        moment = Moment(self._clock.now_ms(mono_ms), mono_ms, self._world.chance)
        self._reading.begin(self._seats, polled)
        self._forgetting.heed(polled)
        self._reading.take(self._seats, moment)
        # The first own echo may have ended an adoption; timers must not go by a wall clock that may run ahead.
        moment = Moment(self._clock.settled_ms(moment.now_ms, mono_ms), mono_ms, self._world.chance)
        self._reading.take_due_retries(self._seats, moment)
        self._reading.note_unread(self._seats)
        self._forgetting.note(self._seats)
        self._losses.settle(self._seats, self._reading, moment)
        self._decide(moment)
        self._commit(moment)
        self._adopting.send_echoes(self._seats, mono_ms)
        self._forgetting.ask(self._seats, moment)
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
        self._forgetting.tell(active, moment)
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
                try:
                    self._intake.apply_command(self._seats[command.shard].shard, moment, command.command)
                except Exception as error:
                    raise JobCrashed(command.shard, "") from error  # an input of the turn brought it

    def _held(self, shard: int) -> bool:
        seat = self._seats.get(shard)
        return seat is not None and seat.reads

    def _commit(self, moment: Moment) -> None:
        held = [seat for seat in self._seats.values() if seat.stage is not Stage.RESTORING]
        seats = [seat for seat in held if seat.to_commit()]
        if not self._is_due(seats, moment.mono_ms):
            if not held or not self._housekeeping.owes_offsets(held, moment.mono_ms):
                if not any(seat.shard.changes.must_commit() for seat in seats):
                    self._settled()
                return
            seats = seats or held[:1]
        member = self._log.member  # asks another thread: once a turn is enough
        parts = [(seat, self._written(seat, moment, member)) for seat in seats]
        claimed = [seat for seat in seats if seat.stage is Stage.CLAIMING]
        extra = self._housekeeping.other_offsets(held, moment.mono_ms)
        began_ms = self._clock.mono_ms()
        last = commit.commit(self._log, parts, self._log.metadata(), self._world.failpoint, extra=extra)
        records = len(self._reading.taken)
        self._settled()
        for seat in seats:
            self._world.signals.counted(seat.shard.changes.counts)
        notices = commit.apply(parts, last, moment.now_ms)
        self._fleet.offers.settle()
        self._world.failpoint("after_store")
        commit.release(self._log, notices)
        self._world.signals.committed(records, self._clock.mono_ms() - began_ms)
        for seat in claimed:
            seat.orphans = []
            self._adopting.claimed(seat)

    def _is_due(self, seats: list[Seat], mono_ms: int) -> bool:
        """Say whether a transaction is needed now. While an input is suspected, each turn stands for itself."""
        positions_ms, wait_ms = self._config.positions_every_ms, self._config.completions_wait_ms
        if any(seat.must_commit(mono_ms, positions_ms, wait_ms) for seat in seats):
            return True
        alone = not self._suspicion.is_idle() or self._reading.full()
        return alone and any(seat.must_commit(mono_ms, positions_ms, 0) for seat in seats)

    def _settled(self) -> None:
        """Say that what was taken has committed, or decided nothing."""
        self._suspicion.passed(self._reading.taken)
        self._reading.settled()

    def _written(self, seat: Seat, moment: Moment, member: str) -> Written:
        ground = self._config.ground
        epochs = self._log.leader_epochs(seat.number, seat.positions) if seat.reads else seat.leader_epochs
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
            leader_epochs={TOPIC_OF[source]: epoch for source, epoch in epochs.items()},
        )
        return Written(seat.shard, meta, ground.lifecycle_partitions)

    def _say_farewell(self) -> None:
        mono_ms = self._clock.mono_ms()
        moment = Moment(self._clock.now_ms(mono_ms), mono_ms, self._world.chance)
        for seat in self._seats.values():
            if seat.reads:
                seat.care.reset()
                seat.shard.changes.durable = True
        self._commit(moment)


def _standbys(config: Config, world: World, clock: EngineClock, retired: Retired) -> Standbys | NoStandbys:
    if not config.standby_replicas or world.follower is None or world.roster is None:
        return NoStandbys()
    log, clocks = world.log, (clock.mono_ms, clock.wall_ms)
    return Standbys(
        config, world.stores, retired, world.follower, world.roster, lambda: log.member, clocks, world.signals
    )
