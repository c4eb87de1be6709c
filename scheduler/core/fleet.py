"""What one dispatcher knows of workers and waiting work, over all shards that it holds."""

import msgspec

from scheduler.core.estimates import Estimates
from scheduler.core.match import Matcher
from scheduler.core.offers import Offers
from scheduler.core.settings import Settings
from scheduler.core.timing import Timing


class Fleet(msgspec.Struct, frozen=True):
    """Offers, ready lanes and estimates; `owner` is the dispatcher's transactional id."""

    owner: str
    shards: int  # S
    settings: Settings
    timing: Timing
    offers: Offers
    matcher: Matcher
    estimates: Estimates


def new_fleet(owner: str, shards: int, settings: Settings, timing: Timing) -> Fleet:
    """Return a fleet without offers or work."""
    return Fleet(
        owner, shards, settings, timing, Offers(timing.offer_life_ms), Matcher(settings), Estimates()
    )
