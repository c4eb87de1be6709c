"""fastavro is the judge: whatever the generated code writes and reads, it writes and reads too."""

import io
import math
import random
from typing import Any

import fastavro
import pytest

from scheduler.codec import catalogue, framing, schemas
from scheduler.codec.errors import Refused
from scheduler.codec.record import RecordCodec
from scheduler.codec.source import SourceWriter, defaults_of, kind_of
from tests.codec.drawing import draw_record
from tests.codec.golden import datum_of, sized_body

CODECS = {entry.codec.name: entry.codec for entry in catalogue.entries()}
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


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
            field["name"]: _plain(
                getattr(value, field["name"]), field["type"], writer, defaults.get(field["name"])
            )
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
def test_both_write_the_same_bytes_and_read_the_same_record(codec):
    for seed in range(150):
        record = draw_record(codec, seed)
        plain, encoded = datum(codec, record), codec.encode(record)
        assert encoded == codec.header + by_fastavro(codec, plain), seed
        assert codec.decode(encoded) == record, seed
        assert datum_of(codec.name, encoded[framing.HEADER_BYTES :]) == plain, seed


@every_codec
def test_sized_blocks_are_read_as_the_same_record(codec):
    for seed in range(60):
        record = draw_record(codec, seed)
        sized = codec.header + sized_body(codec.name, datum(codec, record))
        assert codec.decode(sized) == record, seed


@every_codec
def test_spoilt_bytes_are_refused_or_read_as_fastavro_reads_them(codec):
    """Flips, cuts and insertions: nothing but `Refused` leaves, and nothing is read that the judge reads otherwise."""
    draw = random.Random(1)
    good = [codec.encode(draw_record(codec, seed)) for seed in range(40)]
    read = 0
    for seed in range(1_000):
        spoilt = spoil(good[seed % len(good)], draw)
        try:
            record = codec.decode(spoilt)
        except Refused:
            continue
        read += 1
        stream = io.BytesIO(spoilt[framing.HEADER_BYTES :])
        judged = fastavro.schemaless_reader(stream, schemas.load(codec.name).definition, None)
        wanted = datum(codec, record)
        assert with_nulls_of(judged, wanted) == wanted, seed
        assert stream.read() == b"", seed
    assert read > 20


def spoil(encoded: bytes, draw: random.Random) -> bytes:
    """Return a record with one to three faults behind its header."""
    spoilt = bytearray(encoded)
    for _ in range(draw.randint(1, 3)):
        position = draw.randint(framing.HEADER_BYTES, max(len(spoilt) - 1, framing.HEADER_BYTES))
        action = draw.choice(("flip", "flip", "bit", "cut", "insert", "remove"))
        if action == "cut":
            del spoilt[position:]
        elif action == "insert":
            spoilt[position:position] = draw.randbytes(draw.randint(1, 12))
        elif action == "remove":
            del spoilt[position : position + 1]
        elif position < len(spoilt):
            spoilt[position] ^= draw.randint(1, 255) if action == "flip" else 1 << draw.randint(0, 7)
    return bytes(spoilt)


def with_nulls_of(judged: Any, wanted: Any) -> Any:
    """A part that was written out in full may equal the default, which we hold as absent."""
    if isinstance(judged, dict) and isinstance(wanted, dict):
        return {
            key: None if key in wanted and wanted[key] is None else with_nulls_of(value, wanted.get(key))
            for key, value in judged.items()
        }
    return judged


@every_codec
def test_garbage_behind_a_good_header_raises_nothing_else(codec):
    draw = random.Random(2)
    refused = 0
    for size in range(300):
        try:
            codec.decode(codec.header + draw.randbytes(size))
        except Refused:
            refused += 1  # a few bytes may well be a record
    assert refused > 250


@pytest.mark.parametrize(
    "value",
    [
        *(0, 1, -1, 63, 64, -64, -65, 8_191, 8_192, 1 << 20, (1 << 27) - 1, 1 << 27),
        *((1 << 41) - 1, 1 << 41, (1 << 48) + 5, (1 << 62) + 9, (1 << 63) - 1, -(1 << 63)),
    ],
)
def test_numbers_of_every_length(value):
    codec = CODECS["MetaV1"]
    record = codec.of(1, "", 8, {}, {"reports": value})
    assert codec.encode(record) == codec.header + by_fastavro(codec, datum(codec, record))
    assert codec.decode(codec.encode(record)) == record


@pytest.mark.parametrize("fraction", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(fraction):
    beat = CODECS["BeatV1"]
    held = {"job_id": "a", "epoch": 1, "token": bytes(16), "fraction": fraction, "note": ""}
    sender = {"worker": "", "boot_id": bytes(16), "pool": "", "inbox": 0, "release": ""}
    with pytest.raises(Refused, match="/leases/fraction: not a finite number"):
        beat.decode(beat.header + by_fastavro(beat, {"sender": sender, "leases": [held]}))
