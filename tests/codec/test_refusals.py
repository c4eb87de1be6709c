"""What is refused, with which reason, and what the text gives away (cases AV-04, AV-06, AV-09, SE-03, SE-06)."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from scheduler.codec import catalogue, framing
from scheduler.codec.commands import decode_command
from scheduler.codec.errors import Refused
from scheduler.codec.job import decode_job, encode_job, identify, with_id
from scheduler.codec.lifecycle import decode_lifecycle
from scheduler.codec.meta import decode_meta
from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import decode_report, encode_report
from scheduler.codec.retry import decode_retry
from scheduler.codec.state import decode_state
from scheduler.core import bounds, keys
from scheduler.core.outputs import Refusal
from scheduler.core.reports import Checkpoint, Done, Emit
from tests.codec import golden
from tests.codec.golden import FULL, JOB_ID, PLAIN, SENDER, TOKEN

DECODERS = {
    "job": (decode_job, "JobV1.plain"),
    "report": (decode_report, "DoneV1"),
    "notice": (decode_notice, "LeaseV1"),
    "command": (decode_command, "ForwardV1"),
    "retry": (decode_retry, "RetryV1"),
    "state": (decode_state, "StateV1.leased"),
    "meta": (decode_meta, "MetaV1"),
    "lifecycle": (decode_lifecycle, "LifecycleV1"),
}
everywhere = pytest.mark.parametrize(("decode", "good"), DECODERS.values(), ids=DECODERS)

HEADER = framing.header("JobV1")


def refusal(decode, value: bytes | None) -> Refused:
    with pytest.raises(Refused) as caught:
        decode(value)
    assert caught.value.__context__ is None, "the first error may quote what it could not read"
    return caught.value


@everywhere
def test_foreign_bytes(decode, good):
    good = golden.framed(good)
    for value, reason in (
        (None, Refusal.EMPTY),
        (b"", Refusal.EMPTY),
        (b"\xc3", Refusal.FRAMING),
        (b"\xc3\x01abc", Refusal.FRAMING),
        (b'{"type": "x"}', Refusal.FRAMING),
        (b"\x00\x00\x00\x00\x07body", Refusal.FRAMING),
        (b"Obj\x01", Refusal.FRAMING),  # an object container file
        (b"\xc3\x02" + good[2:], Refusal.FRAMING),
        (b"\xc3\x01" + bytes(8) + good[10:], Refusal.SCHEMA_UNKNOWN),
        (good[:10], Refusal.UNDECODABLE),
        (good[:-1], Refusal.UNDECODABLE),
        (good + bytes(10), Refusal.TRAILING_BYTES),
        (good + bytes(2 * bounds.MIB), Refusal.TOO_LARGE),
    ):
        assert refusal(decode, value).reason is reason, value[:20] if value else value


@everywhere
def test_every_truncation(decode, good):
    good = golden.framed(good)
    for end in range(len(good)):
        refusal(decode, good[:end])


@everywhere
def test_a_record_of_another_topic(decode, good):
    of = type(golden.EXAMPLES[good])
    (welcome,) = (
        {codec.name for codec in family.codecs}
        for _, family in catalogue.PLACES
        if of in {c.of for c in family.codecs}
    )
    for name in golden.EXAMPLES:
        schema = name.partition(".")[0]
        if schema in welcome:
            decode(golden.framed(name))
            continue
        refused = refusal(decode, golden.framed(name))
        assert refused.reason is Refusal.SCHEMA_NOT_ALLOWED
        assert refused.detail.startswith(f"{schema} is not accepted here; want ")


def test_what_is_wrong_is_said_with_the_field():
    for body, detail in (
        (b"\x01", "/job_id: a negative length"),
        (b"\x02\xff", "/job_id: not UTF-8"),
        (b"\x02a\x02b\x02c\x02d\x80\x80\x80\x80\x20", "/priority: an int of more than 32 bits"),
        (b"\x80" * 11, "/job_id: a number of more than 64 bits"),
        (b"\xff" * 9 + b"\x7f", "/job_id: a number of more than 64 bits"),
        (
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"abc",
            "/tenant: the record ends before or inside this field",
        ),
    ):
        refused = refusal(decode_job, HEADER + body)
        assert (refused.reason, refused.detail) == (Refusal.UNDECODABLE, detail)
    assert refused.field == "/tenant"


def test_hostile_counts_cost_nothing():
    """A declared count or length allocates nothing before it is checked."""
    upto_after = encode_job(PLAIN).index(b"\x00\x00\x00\x20application/json")
    head = encode_job(PLAIN)[:upto_after]
    long_max = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    long_min = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    items = bytes(bounds.SPEC_MAX_BYTES - len(head) - 20)  # an empty id takes one byte
    for body, reason in (
        (long_max, Refusal.OUT_OF_BOUNDS),
        (long_max + items, Refusal.OUT_OF_BOUNDS),
        (long_min + b"\x02" + items, Refusal.OUT_OF_BOUNDS),
        (b"\xca\x01" + items, Refusal.OUT_OF_BOUNDS),  # 101
        (b"\x02\x00" * 100_000, Refusal.OUT_OF_BOUNDS),  # one item a block
        (b"\x01\x01\x00", Refusal.UNDECODABLE),  # a sized block of negative size
        (b"\x01\x04\x00\x00", Refusal.UNDECODABLE),  # of another size than told
        (b"\x00" + long_max + items, Refusal.UNDECODABLE),  # then labels: no such enum symbol first
        (b"\x00\x00" + long_max + items, Refusal.OUT_OF_BOUNDS),
        (b"\x00\x00\x00" + long_max + items, Refusal.UNDECODABLE),
        (b"\xff" * 300_000, Refusal.UNDECODABLE),
    ):
        value = head + body
        tracemalloc.start()
        try:
            assert refusal(decode_job, value).reason is reason, body[:20]
            assert tracemalloc.get_traced_memory()[1] < bounds.MIB
        finally:
            tracemalloc.stop()


def test_a_nested_bomb_is_only_a_bad_record():
    """5,001 bytes that end a process whose schema is recursive (AV-02); and as a payload they are just bytes."""
    bomb = b"\x02" * 5_000 + b"\x00"
    assert refusal(decode_job, HEADER + bomb).detail == "/after: 101 items above the limit 100"
    assert decode_job(encode_job(msgspec.structs.replace(PLAIN, payload=bomb))).payload == bomb


MARKER = "SECRET-7f3a"


def test_nothing_of_a_payload_is_told():
    spec = msgspec.structs.replace(PLAIN, payload=MARKER.encode(), labels={MARKER: MARKER})
    good = encode_job(spec)
    start = good.index(b"\x02" + bytes([len(MARKER) * 2]))
    for spoilt in (
        *(good[:end] for end in range(start, len(good))),
        good[: start + 2] + b"\xff" + good[start + 3 :],
    ):
        refused = refusal(decode_job, spoilt)
        assert MARKER not in f"{refused} {refused!r} {refused.detail} {refused.errors}"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("priority", True, "wrong_type"),
        ("priority", 1.9, "wrong_type"),
        ("priority", "1", "wrong_type"),
        ("priority", None, "wrong_type"),
        ("priority", 2**31, "wrong_type"),
        ("priority", -(2**31) - 1, "wrong_type"),
        ("max_attempts", 2**31, "wrong_type"),
        ("run_at_ms", 2**63, "wrong_type"),
        ("run_at_ms", 1_798_761_600_000.5, "wrong_type"),
        ("timeout_ms", float("nan"), "wrong_type"),
        ("tenant", b"shop", "wrong_type"),
        ("tenant", None, "wrong_type"),
        ("tenant", "lone \ud800", "bad_characters"),
        ("payload", "text", "wrong_type"),
        ("payload", bytearray(b"x"), "wrong_type"),
        ("on_parent_failure", "never", "wrong_type"),
        ("after", ("a", 7), "wrong_type"),
        ("after", 7, "wrong_type"),
        ("labels", {"a": 1}, "wrong_type"),
        ("labels", {1: "a"}, "wrong_type"),
        ("labels", [], None),
    ],
)
def test_nothing_is_written_that_its_field_cannot_hold(field, value, code):
    spec = msgspec.structs.replace(PLAIN, **{field: value})
    if code is None:
        assert decode_job(encode_job(spec)).labels == {}
        return
    with pytest.raises(Refused) as caught:
        encode_job(spec)
    assert caught.value.reason is Refusal.OUT_OF_BOUNDS
    assert (caught.value.field, caught.value.errors[0].code) == (f"/{field}", code)


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), "2", True, None])
def test_a_bad_factor_is_named(factor):
    spec = msgspec.structs.replace(PLAIN, backoff=msgspec.structs.replace(PLAIN.backoff, factor=factor))
    with pytest.raises(Refused, match=r"^/backoff/factor: "):
        encode_job(spec)


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), 0, -1])
def test_numbers_at_the_edge_go_round(value):
    spec = msgspec.structs.replace(PLAIN, priority=value, run_at_ms=value << 32)
    assert decode_job(encode_job(spec)) == spec


def done(**fields: Any) -> Done:
    return Done(SENDER, JOB_ID, 7, TOKEN, **fields)


@pytest.mark.parametrize(
    ("report", "pointer"),
    [
        (done(result=bytes(bounds.RESULT_MAX_BYTES + 1)), "/result"),
        (done(emits=(Emit("t", b"", b""),) * (bounds.EMITS_MAX + 1)), "/emits"),
        (done(emits=(Emit("t" * 250, b"", b""),)), "/emits/topic"),
        (done(emits=(Emit("t", b"", b"", 3),)), "/emits/band"),
        (done(run_ms=-1), "/run_ms"),
        (msgspec.structs.replace(done(), job_id="x" * 65), "/job_id"),
        (msgspec.structs.replace(done(), epoch=-1), "/epoch"),
        (
            msgspec.structs.replace(done(), sender=msgspec.structs.replace(SENDER, worker="w" * 129)),
            "/sender/worker",
        ),
        (msgspec.structs.replace(done(), sender=msgspec.structs.replace(SENDER, inbox=-1)), "/sender/inbox"),
        (Checkpoint(SENDER, JOB_ID, 7, TOKEN, bytes(bounds.CHECKPOINT_MAX_BYTES + 1)), "/data"),
    ],
)
def test_a_worker_s_word_is_bounded(report, pointer):
    with pytest.raises(Refused) as caught:
        decode_report(encode_report(report))
    assert (caught.value.reason, caught.value.field) == (Refusal.OUT_OF_BOUNDS, pointer)


def test_the_largest_report_fits():
    emits = tuple(
        Emit("t" * 249, b"k" * 256, bytes(bounds.EMITS_MAX_BYTES // bounds.EMITS_MAX)) for _ in range(100)
    )
    report = done(result=bytes(bounds.RESULT_MAX_BYTES), emits=emits)
    assert decode_report(encode_report(report)) == report


def test_too_large_to_write():
    with pytest.raises(Refused) as caught:
        encode_job(msgspec.structs.replace(PLAIN, payload=bytes(bounds.SPEC_MAX_BYTES)))
    assert caught.value.reason is Refusal.TOO_LARGE


def test_wrong_sizes_of_fixed_fields_are_named():
    with pytest.raises(Refused, match=r"^/token: must be 16 bytes, got bytes of 3$"):
        encode_report(msgspec.structs.replace(done(), token=b"abc"))


def test_a_job_without_id_gets_one():
    nameless = msgspec.structs.replace(PLAIN, job_id="")
    raw = encode_job(nameless)
    job_id = identify(decode_job(raw), "jobs.submit.default", 4, 1_209)
    assert job_id == keys.id_from_coordinates("jobs.submit.default", 4, 1_209)
    kept, spec = with_id(raw, nameless, job_id)
    assert spec == msgspec.structs.replace(PLAIN, job_id=job_id)
    assert decode_job(kept) == spec


def test_a_key_gives_the_id_when_none_is_told():
    nameless = msgspec.structs.replace(FULL, job_id="")
    assert identify(nameless, "jobs.submit.bulk", 0, 0) == FULL.job_id


def test_a_record_that_names_its_id_stays_as_it_is():
    raw = golden.framed(golden.SIZED)
    assert with_id(raw, decode_job(raw), FULL.job_id) == (raw, FULL)
