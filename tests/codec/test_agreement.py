"""fastavro is the judge: whatever the generated code writes and reads, it writes and reads too."""

import io
import math
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.codec import catalogue, framing, schemas
from scheduler.codec.errors import Refused
from scheduler.codec.record import RecordCodec
from scheduler.codec.source import SourceWriter, defaults_of, kind_of
from tests.codec.golden import datum_of, sized_body
from tests.codec.strategies import records

CODECS = {entry.codec.name: entry.codec for entry in catalogue.entries()}
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def datum(codec: RecordCodec[Any], record: Any) -> Any:
    """Return a record as fastavro has it."""
    definition = schemas.load(codec.name).definition
    return _plain(record, definition, SourceWriter(definition))


def _plain(value: Any, schema: Any, writer: SourceWriter, default: Any = None) -> Any:
    schema = writer.resolve(schema)
    kind = kind_of(schema)
    if kind == "union":
        return None if value == default else _plain(value, schema[1], writer)
    if kind == "record":
        defaults = defaults_of(type(value))
        return {
            field["name"]: _plain(getattr(value, field["name"]), field["type"], writer, defaults.get(field["name"]))
            for field in schema["fields"]
        }
    if kind == "array":
        return [_plain(item, schema["items"], writer) for item in value]
    if kind == "enum":
        return value.value or "none"
    return "" if value is None else value


def by_fastavro(codec: RecordCodec[Any], plain: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schemas.load(codec.name).definition, plain, strict=True)
    return out.getvalue()


@every_codec
@thorough
@given(data=st.data())
def test_both_write_the_same_bytes(codec, data):
    record = data.draw(records(codec))
    assert codec.encode(record) == codec.header + by_fastavro(codec, datum(codec, record))


@every_codec
@thorough
@given(data=st.data())
def test_what_is_written_is_read_back(codec, data):
    record = data.draw(records(codec))
    encoded = codec.encode(record)
    assert codec.decode(encoded) == normal(record)
    assert datum_of(codec.name, encoded[framing.HEADER_BYTES :]) == datum(codec, record)


def normal(record: Any) -> Any:
    """An optional text that is empty is read as None."""
    if getattr(record, "idempotency_key", None) == "":
        return msgspec.structs.replace(record, idempotency_key=None)
    return record


@every_codec
@thorough
@given(data=st.data())
def test_sized_blocks_are_read_as_the_same_record(codec, data):
    record = data.draw(records(codec))
    encoded = codec.encode(record)
    read = datum_of(codec.name, encoded[framing.HEADER_BYTES :])
    sized = codec.header + sized_body(schemas.load(codec.name).definition, read, {})
    assert codec.decode(sized) == normal(record)


@every_codec
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_spoilt_bytes_are_refused_or_read_as_fastavro_reads_them(codec, data):
    """Flips, cuts and insertions: nothing but `Refused` leaves, and nothing is read that the judge reads otherwise."""
    encoded = bytearray(codec.encode(data.draw(records(codec))))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(framing.HEADER_BYTES, max(len(encoded) - 1, framing.HEADER_BYTES)))
        action = data.draw(st.sampled_from(["flip", "cut", "insert", "remove"]))
        if action == "flip" and position < len(encoded):
            encoded[position] ^= data.draw(st.integers(1, 255))
        elif action == "cut":
            del encoded[position:]
        elif action == "insert":
            encoded[position:position] = data.draw(st.binary(min_size=1, max_size=12))
        else:
            del encoded[position : position + 1]
    spoilt = bytes(encoded)
    try:
        record = codec.decode(spoilt)
    except Refused:
        return
    stream = io.BytesIO(spoilt[framing.HEADER_BYTES :])
    read = fastavro.schemaless_reader(stream, schemas.load(codec.name).definition, None)
    wanted = datum(codec, record)
    assert no_nulls_for_defaults(read, wanted) == wanted
    assert stream.read() == b""


def no_nulls_for_defaults(read: Any, wanted: Any) -> Any:
    """A record written out in full may be the default that we hold as absent."""
    if isinstance(read, dict) and isinstance(wanted, dict):
        return {key: None if wanted.get(key) is None else no_nulls_for_defaults(read[key], wanted[key]) for key in read}
    return read


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 8_191, 8_192, 1 << 20, (1 << 41) - 1, 1 << 41,
                                   (1 << 48) + 5, (1 << 63) - 1, -(1 << 63)])  # fmt: skip
def test_numbers_of_every_length(value):
    codec = CODECS["EchoV1"]
    if value >= 0:
        record = codec.of("x", value)
        assert codec.encode(record) == codec.header + by_fastavro(codec, {"owner": "x", "sequence": value})
        assert codec.decode(codec.encode(record)) == record
    meta = CODECS["MetaV1"]
    record = meta.of(1, "", 8, {}, {"reports": value})
    assert meta.decode(meta.encode(record)) == record


def test_doubles_are_finite():
    beat = CODECS["BeatV1"]
    for fraction in (math.nan, math.inf, -math.inf):
        body = by_fastavro(
            beat,
            {
                "sender": {"worker": "", "boot_id": bytes(16), "pool": "", "inbox": 0, "release": ""},
                "leases": [{"job_id": "a", "epoch": 1, "token": bytes(16), "fraction": fraction, "note": ""}],
            },
        )
        with pytest.raises(Refused, match="/leases/fraction: not a finite number"):
            beat.decode(beat.header + body)
