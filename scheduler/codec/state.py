"""The state of a job, as the changelog and the store hold it."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.job import JobState

_TIMELINE_MAX: Final = bounds.TIMELINE_FIRST + bounds.TIMELINE_LAST
_STATE_MAX_BYTES: Final = 512 * bounds.KIB  # all its parts at their bounds take 170 KiB

_CODEC: Final = RecordCodec(
    "StateV1",
    JobState,
    max_bytes=_STATE_MAX_BYTES,
    limits={
        "history.attempts": bounds.ATTEMPTS_KEPT,
        "history.attempts[].error.frames": bounds.ERROR_FRAMES_MAX,
        "history.timeline": _TIMELINE_MAX,
        "end.error.frames": bounds.ERROR_FRAMES_MAX,
        "admitted.labels": bounds.LABELS_MAX,
    },
    shared={"admitted", "grant"},
)
STATES: Final[Family[JobState]] = Family({JobState: _CODEC})

decode_state = STATES.decode
encode_state = _CODEC.encode
