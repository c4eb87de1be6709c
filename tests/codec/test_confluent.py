"""Records framed for a schema registry: what is accepted of the world's schemas, and what is not."""

import io
import json
from typing import Any

import fastavro
import pytest

from scheduler.codec import schemas
from scheduler.codec.confluent import Confluent, RegisteredSchema
from scheduler.codec.errors import Refused, RegistryUnavailable
from scheduler.codec.job import decode_job, encode_job, with_id
from scheduler.core import bounds
from scheduler.core.outputs import Refusal
from scheduler.core.spec import JobSpec
from tests.codec.golden import FULL, PLAIN, datum_of

SUBJECT = "jobs.submit.default-value"
OURS = schemas.load("JobV1").definition


class Registry:
    """A registry that knows what it is given and counts questions."""

    def __init__(self, **subjects: Any) -> None:
        self.schemas: dict[int, RegisteredSchema] = {}
        self.asked: list[int] = []
        self.down = False

    def add(self, schema_id: int, schema: Any, subject: str = SUBJECT) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[schema_id] = RegisteredSchema(text, frozenset({subject}))

    def resolve(self, schema_id: int) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        if self.down:
            raise RegistryUnavailable(f"schema {schema_id}: no answer")
        return self.schemas.get(schema_id)


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def confluent(registry):
    return Confluent(registry, frozenset({SUBJECT}))


def body(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, datum)
    return out.getvalue()


def framed(schema_id: int, content: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + content


def smaller(*fields: Any, name: str = "JobV1", namespace: str = "io.kafkascheduler") -> Any:
    required = [
        {"name": "tenant", "type": "string"},
        {"name": "type", "type": "string"},
        {"name": "payload", "type": "bytes"},
    ]
    return {"type": "record", "name": name, "namespace": namespace, "fields": [*required, *fields]}


LEAST = {"tenant": "billing", "type": "invoice.render", "payload": b"{}"}


def refusal(confluent: Confluent, value: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        decode_job(value, confluent)
    return caught.value


def test_our_own_schema(registry, confluent):
    registry.add(7, OURS)
    for spec in (PLAIN, FULL):
        assert decode_job(framed(7, encode_job(spec)[10:]), confluent) == spec
    assert registry.asked == [7]


def test_single_object_framing_goes_on_working(confluent):
    assert decode_job(encode_job(PLAIN), confluent) == PLAIN


def test_what_is_kept_is_single_object_framed(registry, confluent):
    registry.add(7, OURS)
    raw = framed(7, encode_job(PLAIN)[10:])
    kept, spec = with_id(raw, decode_job(raw, confluent), PLAIN.job_id)
    assert (kept, spec) == (encode_job(PLAIN), PLAIN)


def test_a_schema_with_fewer_fields_gets_the_defaults(registry, confluent):
    schema = smaller()
    registry.add(1, schema)
    assert decode_job(framed(1, body(schema, LEAST)), confluent) == JobSpec(
        "", "billing", "default", "invoice.render", b"{}"
    )


def test_more_fields_are_skipped_and_times_are_numbers(registry, confluent):
    schema = smaller(
        {"name": "run_at_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "priority", "type": "int"},
        {"name": "ours", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "after", "type": {"type": "array", "items": "string"}},
    )
    registry.add(1, schema)
    datum = {**LEAST, "run_at_ms": 1_798_761_600_000, "priority": 1, "ours": ["x", "y"], "after": ["a"]}
    spec = decode_job(framed(1, body(schema, datum)), confluent)
    assert (spec.run_at_ms, spec.priority, spec.after) == (1_798_761_600_000, 1, ("a",))


def test_bad_bodies_are_refused(registry, confluent):
    schema = smaller({"name": "note", "type": "string"})
    registry.add(1, schema)
    good = body(schema, {**LEAST, "note": "hello"})
    for end in range(len(good)):
        assert (
            refusal(confluent, framed(1, good[:end]) if end else framed(1, b"\x80")).reason
            is Refusal.UNDECODABLE
        )
    assert refusal(confluent, framed(1, good + b"x")).reason is Refusal.TRAILING_BYTES
    assert refusal(confluent, framed(1, b"\x01" + good)).reason is Refusal.UNDECODABLE  # a negative length
    assert refusal(confluent, framed(1, bytes(bounds.SPEC_MAX_BYTES))).reason is Refusal.TOO_LARGE


def test_a_flood_of_items_is_cut_off(registry, confluent):
    schema = smaller({"name": "after", "type": {"type": "array", "items": "string"}})
    registry.add(1, schema)
    content = body(smaller(), LEAST) + body("long", 300_000) + bytes(300_000) + b"\x00"
    assert refusal(confluent, framed(1, content)).reason is Refusal.UNDECODABLE


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
LINKED = {
    "type": "record",
    "name": "Far",
    "namespace": "elsewhere",
    "fields": [{"name": "near", "type": {"type": "array", "items": ["null", "elsewhere.Far"]}}],
}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (smaller({"name": "deep", "type": NODE}), "recursive"),
        (smaller({"name": "deep", "type": LINKED}), "recursive"),
        (smaller({"name": "self", "type": ["null", "JobV1"]}), "recursive"),
        (smaller({"name": "free", "type": {"type": "array", "items": "null"}}), "takes no bytes"),
        (smaller({"name": "free", "type": {"type": "array", "items": {"type": "null"}}}), "takes no bytes"),
        (smaller({"name": "free", "type": {"type": "fixed", "name": "F", "size": 0}}), "takes no bytes"),
        (smaller({"name": "free", "type": {"type": "record", "name": "E", "fields": []}}), "takes no bytes"),
        (smaller({"name": "free", "type": "null"}), "takes no bytes"),
        (smaller(name="Order"), "not named JobV1"),
        (
            {"type": "record", "name": "JobV1", "fields": [{"name": "tenant", "type": "string"}]},
            "no field type, payload",
        ),
        ("string", "no usable Avro schema"),
        ('"string"', "is no record"),
        ("{", "no usable Avro schema"),
        ("[]", "is no record"),
        ("null", "no usable Avro schema"),
        ('{"type": "record", "name": "JobV1", "fields": 7}', "no usable Avro schema"),
        (smaller({"name": "odd", "type": "never-defined"}), "no usable Avro schema"),
        (json.dumps(smaller()) + " " * 65_536, "the limit is 65536"),
    ],
)
def test_schemas_that_are_not_used(registry, confluent, schema, said):
    registry.add(9, schema)
    for _ in range(2):
        refused = refusal(confluent, framed(9, b"body"))
        assert (refused.reason, said in refused.detail) == (Refusal.SCHEMA_NOT_ALLOWED, True), refused.detail
    assert registry.asked == [9], "the answer is kept"


def test_nesting_is_bounded(registry, confluent):
    schema: Any = "string"
    for _ in range(2_000):
        schema = {"type": "array", "items": schema}
    text = json.dumps(smaller()).replace(
        '"bytes"}',
        '"bytes"}, {"name": "deep", "type": '
        + '{"type":"array","items":' * 1_500
        + '"string"'
        + "}" * 1_500
        + "}",
    )
    registry.add(9, text)
    assert refusal(confluent, framed(9, b"body")).reason is Refusal.SCHEMA_NOT_ALLOWED


def test_only_listed_subjects(registry, confluent):
    registry.add(9, OURS, "orders-value")
    assert refusal(confluent, framed(9, b"body")).reason is Refusal.SCHEMA_NOT_ALLOWED


def test_an_id_that_nobody_knows_is_asked_for_again(registry, confluent):
    assert refusal(confluent, framed(9, b"body")).reason is Refusal.SCHEMA_UNKNOWN
    registry.add(9, OURS)
    assert decode_job(framed(9, encode_job(PLAIN)[10:]), confluent) == PLAIN


def test_a_registry_that_is_down_holds_new_ids_only(registry, confluent):
    registry.add(7, OURS)
    value = framed(7, encode_job(PLAIN)[10:])
    decode_job(value, confluent)
    registry.down = True
    assert decode_job(value, confluent) == PLAIN
    with pytest.raises(RegistryUnavailable):
        decode_job(framed(8, value[5:]), confluent)
    registry.down = False
    registry.add(8, OURS)
    assert decode_job(framed(8, value[5:]), confluent) == PLAIN


def test_our_bytes_are_what_the_registry_s_serializer_writes():
    assert datum_of("JobV1", encode_job(PLAIN)[10:])["payload"] == PLAIN.payload
