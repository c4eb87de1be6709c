"""Everything that goes wrong, each by one method of its name; whatever it breaks heals by itself after a while."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from scheduler.codec.reports import encode_report
from scheduler.core.inputs import SUBMITS, Input
from scheduler.core.job import Ending, JobState
from scheduler.core.notices import Lease
from scheduler.core.reporting import revoke_of
from scheduler.core.reports import Beat, Checkpoint, Done, Fail, Held, Release, ReleaseReason, Sender, Verdict
from scheduler.core.shard import Shard
from scheduler.dispatcher.seat import Stage
from tests.dispatcher.fault_log import abort, fenced, unknown_aborted, unknown_committed
from tests.simulation.disk import Disk
from tests.simulation.dispatcher import DispatcherProcess
from tests.simulation.network import Link

if TYPE_CHECKING:
    from tests.simulation.world import World

STEPS = (
    "poll",
    "decide",
    "begin",
    "flush",
    "fence",
    "commit",
    "release",
    "echo",
    "in_takeover",
    "before_commit",
    "after_commit",
    "after_store",
)

SLEEPS = (
    "decide",
    "begin",
    "begin",
    "flush",
    "commit",
    "before_commit",
    "after_commit",
    "release",
    "in_takeover",
)
"""Where a dispatcher is stopped in its turn: what it goes on with may be nobody's business any more."""


class Faults:
    """Faults of one world, one after the other until it is calm."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.chance = world.chance
        weights = world.profile.faults
        self._names, self._weights = list(weights), list(weights.values())
        self.calm = False
        self._images: list[Disk] = []
        self._next()

    def _next(self) -> None:
        wait_ms = 1 + int(self.chance.expovariate(1 / self.world.profile.fault_every_ms))
        self.world.timeline.after(wait_ms, self._happen)

    def _happen(self) -> None:
        if self.calm:
            return
        name = self.chance.choices(self._names, self._weights)[0]
        self.world.did[name] += 1
        self.world.note("fault", name)
        getattr(self, f"_{name}")()
        self._next()

    def cease(self) -> None:
        """Heal everything: from now on nothing goes wrong."""
        self.calm = True
        for process in self.world.dispatchers():
            process.ambushes.clear()
            process.log._faults.clear()
            process.log.read_at_most = None
            process.log.deaf_to.clear()
            process.clock.ahead_ms = 0
            process.link.heal()
            process.lost_coordinator = False
            if process.stopped:
                process.go_on()
            process.wake(0)
        for worker in self.world.workers():
            worker.link.heal()
            worker.hear_again()
            if worker.stopped:
                worker.go_on()
        self.world.clients.link.heal()
        self.world.slow = False

    # -- choices -----------------------------------------------------------------------------------

    def _dispatcher(self) -> DispatcherProcess | None:
        there = self.world.dispatchers()
        return self.chance.choice(there) if there else None

    def _note(self, who: str, what: str) -> None:
        self.world.note(who, what)

    def _for_a_while(self, begin: Callable[[], None], end: Callable[[], None], *lasts_ms: int) -> None:
        begin()
        self.world.timeline.after(self.chance.choice(lasts_ms), end)

    # -- dispatchers -------------------------------------------------------------------------------

    def _kill_dispatcher(self) -> None:
        process = self._dispatcher()
        if process is not None:
            self.world.replace(process, process.kill())

    def _wipe_disk(self) -> None:
        process = self._dispatcher()
        if process is not None:
            process.kill()
            self.world.replace(process, Disk())

    def _old_disk(self) -> None:
        """Keep an image of a disk, or start a dispatcher on one that was kept."""
        process = self._dispatcher()
        if process is None:
            return
        if self._images and self.chance.random() < 0.6:
            process.kill()
            self.world.replace(process, self.chance.choice(self._images).copy())
        else:
            self._images.append(process.disk.copy())

    def _kill_in_turn(self) -> None:
        process = self._dispatcher()
        if process is not None:
            process.ambushes[self.chance.choice(STEPS)] = partial(self._dies, process)

    def _dies(self, process: DispatcherProcess) -> None:
        self.world.replace(process, process.kill())

    def _stop_dispatcher(self) -> None:
        process = self._dispatcher()
        if process is not None:
            self._note(process.name, "is stopped")
            self._for_a_while(process.stop, process.go_on, 500, 4_000, 12_000, 30_000)

    def _pause_in_turn(self) -> None:
        """Stop a dispatcher between its poll and its commit, or its commit and its leases."""
        process = self._dispatcher()
        if process is not None:
            process.ambushes[self.chance.choice(SLEEPS)] = partial(self._sleeps, process)

    def _sleeps(self, process: DispatcherProcess) -> None:
        self._note(process.name, "is stopped in its turn")
        self._for_a_while(process.stop, process.go_on, 100, 3_000, 8_000, 9_500, 15_000, 25_000)
        process.pause(0)

    def _cut_dispatcher(self) -> None:
        process = self._dispatcher()
        if process is not None:
            self._cut(process.name, process.link)

    def _cut(self, name: str, link: Link) -> None:
        way = self.chance.choice(("up", "down", "both"))
        link.up.is_cut = way != "down"
        link.down.is_cut = way != "up"
        self._note(name, f"is cut off: {way}")
        self.world.timeline.after(self.chance.choice((800, 5_000, 14_000, 40_000)), link.heal)

    def _lose_coordinator(self) -> None:
        """Cut a dispatcher off from the group's coordinator alone: it reads, and can't commit."""
        process = self._dispatcher()
        if process is not None:
            self._note(process.name, "has lost its coordinator")
            self._for_a_while(
                partial(setattr, process, "lost_coordinator", True),
                partial(setattr, process, "lost_coordinator", False),
                2_000,
                15_000,
                40_000,
            )

    def _abort(self) -> None:
        process = self._dispatcher()
        if process is not None:
            process.log.fail(self.chance.choice(("begin", "flush", "fence", "commit")), abort)

    def _fenced(self) -> None:
        process = self._dispatcher()
        if process is not None:
            process.log.fail(self.chance.choice(("flush", "fence", "commit", "abort")), fenced)

    def _unknown_outcome(self) -> None:
        process = self._dispatcher()
        if process is not None:
            process.log.fail("commit", self.chance.choice((unknown_committed, unknown_aborted)))

    def _rebalance(self) -> None:
        self.world.group.scramble()

    def _leave(self) -> None:
        process = self._dispatcher()
        if process is not None and not process.busy and not process.stopped:
            self._note(process.name, "leaves")
            self.world.replace(process, process.leave())

    def _rejoin(self) -> None:
        process = self._dispatcher()
        if process is not None:
            process.log.rejoin(range(self.world.shards))

    def _step_clock(self) -> None:
        """Put a wall clock wrong, by less than what the age of a disk allows for (`dispatcher/own_disk.py`)."""
        process, most_ms = self._dispatcher(), self.world.profile.delete_retention_ms // 4
        if process is not None:
            ahead_ms = self.chance.choice((0, 0, 500, -500, -30_000, 60_000))
            process.clock.ahead_ms = max(-most_ms, min(ahead_ms, most_ms))

    def _read_little(self) -> None:
        """Let a dispatcher be slow to read."""
        process = self._dispatcher()
        if process is not None:
            process.log.read_at_most = self.chance.choice((0, 0, 1, 2))
            self.world.timeline.after(
                self.chance.choice((2_000, 30_000, 40_000)),
                partial(setattr, process.log, "read_at_most", None),
            )

    def _deafen(self) -> None:
        """Let the leader of one input be out of a dispatcher's reach."""
        self._be_deaf_to(self.chance.choice(list(Input)))

    def _deafen_to_submits(self) -> None:
        self._be_deaf_to(self.chance.choice((*SUBMITS, Input.COMMANDS)))

    def _be_deaf_to(self, source: Input) -> None:
        process = self._dispatcher()
        if process is not None:
            self._note(process.name, f"can't read {source.name}")
            self._for_a_while(
                partial(process.log.deaf_to.add, source),
                partial(process.log.deaf_to.discard, source),
                3_000,
                15_000,
                30_000,
            )

    def _end_runs(self) -> None:
        """Ask workers to end runs, as a cancel or the dispatcher's own time-out does."""
        for process in self.world.dispatchers():
            if process.busy or process.stopped:
                continue
            for seat in process.engine.seats.values():
                if seat.stage is Stage.ACTIVE:
                    self._end_some(seat.shard)
            process.wake(0)

    def _end_some(self, shard: Shard) -> None:
        for state in shard.live():
            if self.chance.random() < 0.2 and shard.state(state.job_id) is state:
                self._end_run(shard, state, self.chance.choice((Ending.CANCEL, Ending.TIMEOUT)))

    @staticmethod
    def _end_run(shard: Shard, state: JobState, why: Ending) -> None:
        given = state.grant
        if given is not None and given.ending is Ending.NONE:
            state = msgspec.structs.replace(state, grant=msgspec.structs.replace(given, ending=why))
            shard.put(state)
            shard.notify(given.pool, given.inbox, revoke_of(shard, state, str(why)))

    # -- workers -----------------------------------------------------------------------------------

    def _kill_worker(self) -> None:
        worker = self.chance.choice(self.world.workers())
        self._note(worker.name, "is killed")
        worker.kill()
        self.world.gone(worker)

    def _stop_worker(self) -> None:
        worker = self.chance.choice(self.world.workers())
        self._note(worker.name, "is stopped")
        self._for_a_while(worker.stop, worker.go_on, 500, 5_000, 12_000, 30_000)

    def _cut_worker(self) -> None:
        worker = self.chance.choice(self.world.workers())
        self._cut(worker.name, worker.link)

    def _hear_before_it_speaks(self) -> None:
        """Cut a worker off; what was on its way to it arrives long before anything of its own does."""
        worker = self.chance.choice(self.world.workers())
        link = worker.link
        self._note(worker.name, "is cut off, and will hear first")
        link.up.is_cut = link.down.is_cut = True
        self.world.timeline.after(
            self.chance.choice((4_000, 9_000, 14_000)), partial(setattr, link.down, "is_cut", False)
        )
        self.world.timeline.after(self.chance.choice((20_000, 45_000)), link.heal)

    def _deafen_worker(self) -> None:
        """Let a worker hear nothing of its inbox, while its beats are acknowledged."""
        worker = self.chance.choice(self.world.workers())
        self._note(worker.name, "can't read its inbox")
        self._for_a_while(worker.deafen, worker.hear_again, 4_000, 15_000, 40_000)

    def _drain_worker(self) -> None:
        worker = self.chance.choice(self.world.workers())
        self._note(worker.name, "drains")
        worker.drain()

    def _forge(self) -> None:
        """Let somebody report on a live lease with a guessed token or epoch, under any worker's name."""
        worker = self.chance.choice(self.world.workers())
        leases = worker.leases()
        if not leases:
            return
        lease = self.chance.choice(leases)
        sender = self.chance.choice((worker.sender, self.chance.choice(self.world.workers()).sender))
        token = self.chance.choice((bytes(16), self.chance.randbytes(16)))
        forged = msgspec.structs.replace(lease, token=token)
        if self.chance.random() < 0.3:
            forged = msgspec.structs.replace(lease, epoch=lease.epoch + self.chance.choice((-1, 1)))
        report = self._forged(sender, forged)
        self._note("forger", f"{type(report).__name__} of {forged.job_id} epoch {forged.epoch}")
        self.world.report(lease.shard, encode_report(report))

    def _forged(self, sender: Sender, lease: Lease) -> Done | Fail | Release | Checkpoint | Beat:
        head = (sender, lease.job_id, lease.epoch, lease.token)
        how = self.chance.randrange(5)
        if how == 0:
            return Done(*head, result=b"forged")
        if how == 1:
            return Fail(*head, Verdict.RETRY)
        if how == 2:
            return Release(*head, ReleaseReason.INTERRUPTED)
        if how == 3:
            return Checkpoint(*head, f"{lease.job_id}:0:forged".encode())
        return Beat(sender, (Held(*head[1:]),))

    # -- the rest ----------------------------------------------------------------------------------

    def _cut_clients(self) -> None:
        self._cut("clients", self.world.clients.link)

    def _slow_network(self) -> None:
        self._for_a_while(
            partial(setattr, self.world, "slow", True),
            partial(setattr, self.world, "slow", False),
            3_000,
            20_000,
        )

    def _spoil(self) -> None:
        self.world.clients.spoil()

    def _poison(self) -> None:
        self.world.clients.publish_poison()

    def _bug(self) -> None:
        self.world.clients.publish_bug()
