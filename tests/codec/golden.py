"""What lies in `schemas/examples`, made anew: `python -m tests.codec.golden` writes it.

Released bytes stay as they are for ever. So a change here adds files; it never changes one that was released.
"""

import io
import json
from pathlib import Path
from typing import Any

import fastavro

from scheduler.codec import catalogue, framing, schemas
from scheduler.codec.source import SourceWriter, kind_of
from scheduler.core import keys
from scheduler.core.inputs import Meta
from scheduler.core.job import (
    Admitted,
    Attempt,
    End,
    Ending,
    ErrorInfo,
    Event,
    Grant,
    History,
    JobState,
    Phase,
)
from scheduler.core.notices import Drain, Lease, Revoke
from scheduler.core.outputs import Forward, Lifecycle, RetryRecord, SubmitsRead
from scheduler.core.reports import (
    Beat,
    Checkpoint,
    Done,
    Echo,
    Emit,
    Fail,
    Freed,
    Held,
    Offer,
    Release,
    ReleaseReason,
    Sender,
    Verdict,
)
from scheduler.core.spec import Backoff, JobSpec, OnParentFailure

DIRECTORY = schemas.directory() / "examples"

JOB_ID = "0199f2c4-8d1e-7a30-9b52-5a7f0c1d2e3f"
PARENT = "7c1e58a0-52f6-5e0b-8a57-3d2f5b0c9d10"
BOOT_ID = bytes(range(16))
TOKEN = bytes(range(0xF0, 0x100))
NOW_MS = 1_798_761_600_000  # 2027-01-01T00:00:00Z
SENDER = Sender("mail-77b-q1", BOOT_ID, "default", 17, "2026.11.29-2")

PLAIN = JobSpec(
    JOB_ID,
    "shop",
    "email",
    "shop.send_email",
    b'{"to":"ann@example.com","subject":"Welcome"}',
)
FULL = JobSpec(
    job_id=keys.id_from_key("billing", "order-17-welcome"),
    tenant="billing",
    queue="webhooks/example.com",
    type="invoice.render",
    payload=bytes(range(256)),
    content_type="application/octet-stream",
    priority=9,
    run_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 86_400_000,
    max_attempts=12,
    timeout_ms=1_800_000,
    backoff=Backoff(100, 1.5, 600_000),
    idempotency_key="order-17-welcome",
    after=(JOB_ID, PARENT),
    on_parent_failure=OnParentFailure.RUN,
    labels={"order": "17", "région": "é"},
)
_ERROR = ErrorInfo(
    "smtplib.SMTPServerDisconnected", "Connection unexpectedly closed", ("jobs.py:24:send_email",)
)
_LEASED = JobState(
    JOB_ID,
    Admitted(
        1, "shop", "email", "shop.send_email", 3, bytes(range(16, 32)), NOW_MS, 88_121, 5, 300_000,
        has_key=False,
        labels={"order": "17"},
    ),
    Phase.LEASED,
    epoch=7,
    grant=Grant(
        7, TOKEN, 20_000, 300_000, "mail-77b-q1", BOOT_ID, 4_711, "default", 17, NOW_MS + 12, started=True,
        ending=Ending.CANCEL,
    ),
    history=History(
        attempt=1, losses=1, undelivered=2, releases=3, snoozes=4,
        attempts=(Attempt(NOW_MS + 5, 1, 6, "failed", "mail-77b-q1", "2026.11.29-2", _ERROR),),
        timeline=(Event(NOW_MS, "leased", "attempt 1"), Event(NOW_MS + 5, "failed")),
        timeline_dropped=8,
        stale_epoch=5,
    ),
    checkpoint=b"3",
)  # fmt: skip
_FAILED = JobState(
    JOB_ID,
    Admitted(
        2, "shop", "email", "shop.send_email", 3, bytes(range(16, 32)), NOW_MS, 88_121, 5, 300_000, has_key=True
    ),
    Phase.FAILED,
    end=End(NOW_MS + 9, NOW_MS + 2_592_000_009, "attempts_exhausted", _ERROR),
)  # fmt: skip

EXAMPLES: dict[str, Any] = {
    "JobV1.plain": PLAIN,
    "JobV1.full": FULL,
    "OfferV1": Offer(SENDER, 1, 8, 1, takes_suspect=True),
    "DoneV1": Done(
        SENDER, JOB_ID, 7, TOKEN, 312, b'{"sent":true}', "", (Emit("video-ready", b"v1", b"..."),), Freed(4_712)
    ),
    "FailV1": Fail(SENDER, JOB_ID, 7, TOKEN, Verdict.RETRY, 40, 30_000, _ERROR, None),
    "ReleaseV1": Release(SENDER, JOB_ID, 7, TOKEN, ReleaseReason.SNOOZED, True, 40, 600_000, "warehouse not ready"),
    "BeatV1": Beat(SENDER, (Held(JOB_ID, 7, TOKEN, 0.42, "segment 17"), Held(PARENT, 1 << 40, TOKEN))),
    "CheckpointV1": Checkpoint(SENDER, JOB_ID, 7, TOKEN, b"3"),
    "EchoV1": Echo("dispatcher-1-0a0b0c0d", 19),
    "LeaseV1": Lease(BOOT_ID, JOB_ID, 7, TOKEN, 2, 4_711, 20_000, 300_000, 17, False, 5, b"3", b"..."),
    "RevokeV1": Revoke(BOOT_ID, JOB_ID, 7, TOKEN, 17, "timeout"),
    "DrainV1": Drain(BOOT_ID, "deploy"),
    "RetryV1": RetryRecord(JOB_ID, 7, NOW_MS + 5_000),
    "ForwardV1": Forward(2, b"...", "submit.bulk", 3, 1_209, NOW_MS),
    "SubmitsReadV1": SubmitsRead((0, 3, 63), NOW_MS),
    "StateV1.leased": _LEASED,
    "StateV1.failed": _FAILED,
    "MetaV1": Meta(
        1, "MkU3OEVBNTcwNTJENDM2Qg", 8, {"reports": "x8Cmp"}, {"reports": 19, "retry.5s": -1}, 7, "d-1", "d-1-uuid", 1,
        "submit.bulk@1209", 2, NOW_MS, {"reports": 4},
    ),
    "LifecycleV1": Lifecycle(
        NOW_MS, JOB_ID, "shop", "email", "shop.send_email", "dead_lettered", "attempts_exhausted", 7, 5, 17, 812_231,
        "jobs.submit.default/17@88121",
    ),
}  # fmt: skip

SIZED = "JobV1.sized-blocks"
"""`FULL` as some libraries would write it: arrays and maps in several blocks with their sizes."""

IDS = (
    JOB_ID, PARENT, "a", "ab", "abc", "abcd", "order-17", "ORDER-17", "invoice:2027-01-01", "x.y_z-0", "0" * 64, "Z" * 63,
    keys.id_from_key("billing", "order-17-welcome"), keys.id_from_key("shop", "é"),
    keys.id_from_coordinates("jobs.submit.default", 4, 1_209), keys.id_from_coordinates("jobs.submit.bulk", 0, 0),
    *(f"job-{n}" for n in range(4)),
)  # fmt: skip


def datum_of(name: str, body: bytes) -> Any:
    """Return what fastavro reads in an unframed body."""
    return fastavro.schemaless_reader(io.BytesIO(body), schemas.load(name).definition, None)


def sized_body(name: str, datum: Any) -> bytes:
    """Return a datum in Avro, every array and map in blocks of one item with a negative count and a size."""
    definition = schemas.load(name).definition
    return _sized(definition, datum, SourceWriter(definition))


def _sized(schema: Any, datum: Any, writer: SourceWriter) -> bytes:
    schema = writer.resolve(schema)
    kind = kind_of(schema)
    if kind == "union":
        return (
            _written("long", 0) if datum is None else _written("long", 1) + _sized(schema[1], datum, writer)
        )
    if kind == "record":
        return b"".join(_sized(field["type"], datum[field["name"]], writer) for field in schema["fields"])
    if kind == "array":
        return _blocks([_sized(schema["items"], item, writer) for item in datum])
    if kind == "map":
        return _blocks(
            [_written("string", key) + _sized(schema["values"], datum[key], writer) for key in datum]
        )
    return _written(schema, datum)


def _blocks(items: list[bytes]) -> bytes:
    parts = [_written("long", -1) + _written("long", len(item)) + item for item in items]
    return b"".join(parts) + _written("long", 0)


def _written(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, datum)
    return out.getvalue()


def framed(name: str) -> bytes:
    """Return an example's bytes."""
    schema = name.partition(".")[0]
    if name == SIZED:
        datum = datum_of(schema, framed("JobV1.full")[framing.HEADER_BYTES :])
        return framing.header(schema) + sized_body(schema, datum)
    record = EXAMPLES[name]
    codec = next(entry.codec for entry in catalogue.entries() if entry.codec.name == schema)
    return codec.encode(record)


def as_json(name: str) -> str:
    """Return an example in Avro's own JSON encoding; bytes are text of the characters U+0000 to U+00FF."""
    schema = name.partition(".")[0]
    out = io.StringIO()
    datum = datum_of(schema, framed(name)[framing.HEADER_BYTES :])
    fastavro.json_writer(out, schemas.load(schema).definition, [datum])
    return _pretty(json.loads(out.getvalue()))


def files() -> dict[str, bytes]:
    """Return every file of `schemas/examples` by name."""
    found = {f"{name}.bin": framed(name) for name in (*EXAMPLES, SIZED)}
    texts = {f"{name}.json": as_json(name) for name in EXAMPLES}
    texts["shards.json"] = _pretty(
        [{"id": job_id, "shards": {str(s): keys.shard_of(job_id, s) for s in (8, 32, 64)}} for job_id in IDS]
    )
    texts["ids.json"] = _pretty(_ids())
    texts["fingerprints.json"] = _pretty(
        {entry.codec.name: schemas.load(entry.codec.name).fingerprint.hex() for entry in catalogue.entries()}
    )
    return found | {name: text.encode() for name, text in texts.items()}


def _ids() -> Any:
    """Rules for ids, with examples."""
    keyed = [("billing", "order-17-welcome"), ("shop", "é"), ("a/b", "x" * 256)]
    landed = [("jobs.submit.default", 4, 1_209), ("jobs.submit.bulk", 0, 0)]
    return {
        "root": str(keys.ROOT),
        "from_key": [{"tenant": t, "idempotency_key": k, "job_id": keys.id_from_key(t, k)} for t, k in keyed],
        "from_coordinates": [
            {"topic": t, "partition": p, "offset": o, "job_id": keys.id_from_coordinates(t, p, o)}
            for t, p, o in landed
        ],
    }


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write(directory: Path = DIRECTORY) -> None:
    """Write all files."""
    directory.mkdir(exist_ok=True)
    for name, content in files().items():
        (directory / name).write_bytes(content)


if __name__ == "__main__":
    write()
