"""The constants of the lease protocol, in one frozen struct so that tests scale them all together."""

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """Periods of the lease protocol, in milliseconds (docs/DESIGN.md, section 7)."""

    first_ms: int = 10_000  # F: first period, until the first renewal of the epoch is read
    first_margin_ms: int = 1_000  # a worker starts a lease only within F less this
    margin_min_ms: int = 1_000  # M is the larger of this and a tenth of L
    offer_life_ms: int = 5_000  # an offer lives this long from when it was read
    offer_repeat_ms: int = 4_000  # free slots unanswered for this long are offered again
    echo_every_ms: int = 1_000  # at most one echo per shard in this time
    first_beat_ms: int = 3_000  # the first beat of an epoch comes this long after its start
    timeout_grace_ms: int = 15_000  # the dispatcher's own timeout comes this long after the worker's
    retry_overdue_ms: int = 60_000  # adopt wakes retrying jobs that are overdue by this much

    def margin_ms(self, lease_ms: int) -> int:
        """Return M for a lease period of `lease_ms`."""
        return max(self.margin_min_ms, lease_ms // 10)


LEASE_DEFAULT_MS = 20_000
LEASE_MIN_MS = 10_000
LEASE_MAX_MS = 60_000
