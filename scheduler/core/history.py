"""What a job's state remembers of runs that did not go as planned, all of it bounded."""

import msgspec

from scheduler.core import bounds
from scheduler.core.job import Attempt, ErrorInfo, Event, History


def with_attempt(history: History, attempt: Attempt) -> History:
    """Return `history` with one more ended lease, the oldest beyond the bound forgotten."""
    kept = (*history.attempts, attempt)[-bounds.ATTEMPTS_KEPT :]
    return msgspec.structs.replace(history, attempts=kept)


def with_event(history: History, event: Event) -> History:
    """Return `history` with one more line on the timeline: the first few and the last few stay."""
    timeline = (*history.timeline, event)
    dropped = history.timeline_dropped
    if len(timeline) > bounds.TIMELINE_FIRST + bounds.TIMELINE_LAST:
        timeline = timeline[: bounds.TIMELINE_FIRST] + timeline[bounds.TIMELINE_FIRST + 1 :]
        dropped += 1
    return msgspec.structs.replace(history, timeline=timeline, timeline_dropped=dropped)


def error_of(history: History) -> ErrorInfo | None:
    """Return the latest error that a run left."""
    return next((attempt.error for attempt in reversed(history.attempts) if attempt.error is not None), None)
