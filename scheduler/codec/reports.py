"""What workers send to `reports`. Their word is not trusted: every length and number is bounded here."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.reports import Beat, Checkpoint, Done, Echo, Fail, Offer, Release, Report

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_OVERHEAD_BYTES: Final = 2 * bounds.KIB  # names, ids, token and lengths of one report
_TOPIC_MAX_CHARS: Final = 249  # what Kafka allows
_EMIT_OVERHEAD_BYTES: Final = bounds.KIB  # topic, key and lengths of one emitted record

_SENDER_LIMITS: Final = {
    "sender.worker": bounds.WORKER_NAME_MAX_CHARS,
    "sender.pool": bounds.NAME_MAX_CHARS,
    "sender.release": bounds.NAME_MAX_CHARS,
}
_LIMITS: Final = {**_SENDER_LIMITS, "job_id": bounds.JOB_ID_MAX_CHARS}
_SENDER_RANGES: Final = {"sender.inbox": (0, _INT_MAX)}
_BANDS: Final = (0, 2)
_RANGES: Final = {
    **_SENDER_RANGES,
    "epoch": (0, _LONG_MAX),
    "run_ms": (0, _LONG_MAX),
    "freed.sequence": (0, _LONG_MAX),
    "freed.lowest_band": _BANDS,
}

REPORTS: Final[Family[Report]] = Family(
    {
        Offer: RecordCodec(
            "OfferV1",
            Offer,
            max_bytes=_OVERHEAD_BYTES,
            limits=_SENDER_LIMITS,
            ranges={
                **_SENDER_RANGES,
                "sequence": (0, _LONG_MAX),
                "slots": (0, bounds.SLOTS_MAX),
                "lowest_band": _BANDS,
            },
        ),
        Done: RecordCodec(
            "DoneV1",
            Done,
            max_bytes=bounds.RESULT_MAX_BYTES
            + bounds.EMITS_MAX_BYTES
            + bounds.EMITS_MAX * _EMIT_OVERHEAD_BYTES
            + _OVERHEAD_BYTES,
            limits={
                **_LIMITS,
                "result": bounds.RESULT_MAX_BYTES,
                "result_omitted": bounds.ERROR_MAX_BYTES,
                "emits": bounds.EMITS_MAX,
                "emits[].topic": _TOPIC_MAX_CHARS,
                "emits[].value": bounds.EMITS_MAX_BYTES,
            },
            ranges={**_RANGES, "emits[].band": _BANDS},
        ),
        Fail: RecordCodec(
            "FailV1",
            Fail,
            max_bytes=2 * bounds.ERROR_MAX_BYTES + _OVERHEAD_BYTES,
            limits={
                **_LIMITS,
                "error.error_class": bounds.ERROR_CLASS_MAX_BYTES,
                "error.message": bounds.ERROR_MAX_BYTES,
                "error.frames": bounds.ERROR_FRAMES_MAX,
                "error.frames[]": bounds.FRAME_MAX_BYTES,
            },
            ranges={**_RANGES, "retry_after_ms": (-1, bounds.DELAY_MAX_MS)},
        ),
        Release: RecordCodec(
            "ReleaseV1",
            Release,
            max_bytes=bounds.ERROR_MAX_BYTES + _OVERHEAD_BYTES,
            limits={**_LIMITS, "detail": bounds.ERROR_MAX_BYTES},
            ranges={**_RANGES, "delay_ms": (0, bounds.DELAY_MAX_MS)},
        ),
        Beat: RecordCodec(
            "BeatV1",
            Beat,
            max_bytes=bounds.BEAT_LEASES_MAX * (bounds.JOB_ID_MAX_CHARS + bounds.PROGRESS_NOTE_MAX_BYTES + 64)
            + _OVERHEAD_BYTES,
            limits={
                **_SENDER_LIMITS,
                "leases": bounds.BEAT_LEASES_MAX,
                "leases[].job_id": bounds.JOB_ID_MAX_CHARS,
                "leases[].note": bounds.PROGRESS_NOTE_MAX_BYTES,
            },
            ranges={**_SENDER_RANGES, "leases[].epoch": (0, _LONG_MAX)},
        ),
        Checkpoint: RecordCodec(
            "CheckpointV1",
            Checkpoint,
            max_bytes=bounds.CHECKPOINT_MAX_BYTES + _OVERHEAD_BYTES,
            limits={**_LIMITS, "data": bounds.CHECKPOINT_MAX_BYTES},
            ranges={**_SENDER_RANGES, "epoch": (0, _LONG_MAX)},
        ),
        Echo: RecordCodec(
            "EchoV1",
            Echo,
            max_bytes=_OVERHEAD_BYTES,
            limits={"owner": bounds.KIB},
            ranges={"sequence": (0, _LONG_MAX)},
        ),
    }
)

decode_report = REPORTS.decode
encode_report = REPORTS.encode
