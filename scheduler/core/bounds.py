"""Every bound of the system, named once. Units are last in each name."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

# -- job records -------------------------------------------------------------------------------
JOB_ID_MAX_CHARS: Final = 64
NAME_MAX_CHARS: Final = 128
IDEMPOTENCY_KEY_MAX_BYTES: Final = 256
PRIORITY_MAX: Final = 9
TIME_MAX_MS: Final = 253_402_300_799_999  # the last millisecond of the year 9999
MAX_ATTEMPTS_MAX: Final = 1_000
TIMEOUT_MIN_MS: Final = 100
TIMEOUT_MAX_MS: Final = 24 * HOUR_MS
QUEUE_TIMEOUT_DEFAULT_MS: Final = HOUR_MS  # what a queue allows unless its settings say otherwise
BACKOFF_MIN_MS: Final = 1
BACKOFF_MAX_MS: Final = 7 * DAY_MS
BACKOFF_FACTOR_MAX: Final = 100.0
PAYLOAD_MAX_BYTES: Final = 256 * KIB
CONTENT_TYPE_MAX_CHARS: Final = 128
LABELS_MAX: Final = 16
LABEL_MAX_BYTES: Final = 64  # of a label's name, and of its value
PARENTS_MAX: Final = 100
SPEC_MAX_BYTES: Final = 384 * KIB  # a whole encoded job record

# -- what a run hands back ------------------------------------------------------------------------
RESULT_MAX_BYTES: Final = 64 * KIB
CHECKPOINT_MAX_BYTES: Final = 16 * KIB
ERROR_MAX_BYTES: Final = 2 * KIB
ERROR_CLASS_MAX_BYTES: Final = 256
ERROR_FRAMES_MAX: Final = 8
FRAME_MAX_BYTES: Final = 128
PROGRESS_NOTE_MAX_BYTES: Final = 128
EMITS_MAX: Final = 100
EMITS_MAX_BYTES: Final = 256 * KIB
DELAY_MAX_MS: Final = 366 * DAY_MS  # of Retry(after) and Snooze
WORKER_NAME_MAX_CHARS: Final = 128
BOOT_ID_BYTES: Final = 16
TOKEN_BYTES: Final = 16
DIGEST_BYTES: Final = 16

# -- what a job's state keeps ------------------------------------------------------------------------
TIMELINE_FIRST: Final = 3
TIMELINE_LAST: Final = 20
ATTEMPTS_KEPT: Final = 5

# -- counters whose bound dead-letters a job -------------------------------------------------------------
LOSSES_MAX: Final = 3
UNDELIVERED_MAX: Final = 10
UNDELIVERED_SUSPECT: Final = 2  # from so many on a job is a suspect, as from its first loss on
RELEASE_BACKOFF_MIN_MS: Final = 1 * SECOND_MS
RELEASE_BACKOFF_MAX_MS: Final = 60 * SECOND_MS

# -- workers ----------------------------------------------------------------------------------------
SLOTS_MAX: Final = 1_024
BEAT_LEASES_MAX: Final = 1_024

# -- one turn of the dispatcher -------------------------------------------------------------------------
TURN_RECORDS: Final = (
    1_000  # with 2,000 a job takes a sixth more time: its objects have left the processor's cache
)
TURN_BYTES: Final = 8 * MIB
TURN_DECIDE_MS: Final = 50
TURN_TIMERS: Final = 1_000
TURN_EXPIRIES: Final = 1_000
BULK_SHARE: Final = 10  # bulk always gets one record in this many
