"""Taking up the live leases of a shard: after its take-over, a reload, or a dropped turn.

The owner appends an echo to the shard's `reports` and reads up to it, admitting jobs but granting and
expiring nothing. Then everything that workers had said before has been heard, and every lease that still
lives is sent again, for an ending one only its revoke.
"""

from scheduler.codec.reports import encode_report
from scheduler.core.moment import Moment
from scheduler.core.reports import Echo
from scheduler.core.wakeups import expire_leases, resend_leases
from scheduler.dispatcher.engine_clock import ECHO_EVERY_MS, EngineClock
from scheduler.dispatcher.ports import Log, Record
from scheduler.dispatcher.seat import Seat, Stage


class Adopting:
    """Sends echoes and acts on those that come back."""

    def __init__(self, log: Log, clock: EngineClock) -> None:
        """Send echoes by `log`."""
        self._log = log
        self._clock = clock

    def claimed(self, seat: Seat) -> None:
        """Begin to read a shard whose first `meta` of ours has committed."""
        self._log.follow(seat.number, seat.positions, seat.leader_epochs)
        self.begin(seat)

    def begin(self, seat: Seat) -> None:
        """Adopt a shard's leases: only an echo from now on ends it."""
        seat.stage = Stage.ADOPTING
        seat.adopt_from = seat.leases.last_echo + 1
        seat.leases.hurry_echo()

    def send_echoes(self, seats: dict[int, Seat], mono_ms: int) -> None:
        """Send the echoes that adoption, expiry and the clock wait for, at most one per second and shard."""
        asked = self._asked_for_time(seats, mono_ms)
        for seat in seats.values():
            if (
                seat is asked
                or seat.stage is Stage.ADOPTING
                or (seat.stage is Stage.ACTIVE and seat.leases.looks_due(mono_ms))
            ):
                sequence = seat.leases.next_echo(mono_ms)
                if sequence is not None:
                    self._log.echo(seat.number, encode_report(Echo(self._log.owner, sequence)))

    def _asked_for_time(self, seats: dict[int, Seat], mono_ms: int) -> Seat | None:
        """Return the shard whose broker is asked for its time: not always the same, for brokers differ."""
        if not self._clock.wants_echo(mono_ms):
            return None
        active = [seat for seat in seats.values() if seat.stage is Stage.ACTIVE]
        return active[mono_ms // ECHO_EVERY_MS % len(active)] if active else None

    def echo_read(self, seat: Seat, moment: Moment, echo: Echo, record: Record) -> None:
        """Act on an echo that came back; those of other owners say nothing."""
        if echo.owner != self._log.owner:
            return
        produced_at_ms = seat.leases.echo_read(echo.sequence)
        if produced_at_ms is None:
            return
        self._clock.echoed(record.at_ms, produced_at_ms, moment.mono_ms)
        if seat.stage is Stage.ACTIVE:
            expire_leases(seat.shard, moment, produced_at_ms)
        elif echo.sequence >= seat.adopt_from:
            seat.stage = Stage.ACTIVE
            seat.shard.begin_granting()
            resend_leases(seat.shard)
