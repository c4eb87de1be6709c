"""Rules that every schema keeps (docs/DESIGN.md, section 3)."""

import json
from collections.abc import Iterator
from typing import Any

import fastavro
import msgspec
import pytest

from scheduler.codec import framing, schemas
from scheduler.core.spec import Backoff, JobSpec

NAMES = sorted(path.stem for path in schemas.directory().glob("*.avsc"))


def parts(schema: Any) -> Iterator[Any]:
    """Walk through a schema and everything in it."""
    yield schema
    if isinstance(schema, list):
        for branch in schema:
            yield from parts(branch)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield from parts(field["type"])
        for inner in ("items", "values"):
            if inner in schema:
                yield from parts(schema[inner])


def test_every_file_is_a_known_record_type():
    assert sorted(framing.NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_rules(name):
    definition = schemas.load(name).definition
    assert (definition["name"], definition["namespace"]) == (name, "io.kafkascheduler")
    fastavro.parse_schema(definition)
    for part in parts(definition):
        if isinstance(part, list):
            assert part[0] == "null", "unions are null and one other type"
            assert len(part) == 2
        elif isinstance(part, dict):
            assert "logicalType" not in part
            assert part.get("size", 1) > 0
            assert part.get("fields", True), "a record without fields takes no bytes"
            assert "doc" in part or "name" not in part
            for field in part.get("fields", ()):
                assert field["doc"].endswith("."), field
                assert field["type"] != "null"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_recursive(name):
    def walk(schema: Any, above: frozenset[str]) -> None:
        if isinstance(schema, str):
            assert schema not in above
        elif isinstance(schema, list):
            for branch in schema:
                walk(branch, above)
        else:
            below = above | {schema["name"]} if "name" in schema else above
            for field in schema.get("fields", ()):
                walk(field["type"], below)
            for inner in ("items", "values"):
                if inner in schema:
                    walk(schema[inner], below)

    walk(schemas.load(name).definition, frozenset())


def test_names_inside_a_record_are_its_own():
    """So that one generator run over all files never meets a name twice."""
    owners: dict[str, str] = {}
    for name in NAMES:
        for part in parts(schemas.load(name).definition):
            if isinstance(part, dict) and "name" in part:
                full = f"{part['namespace']}.{part['name']}"
                assert owners.setdefault(full, name) == name, full


def test_defaults_of_a_job_are_those_of_its_type():
    fields = {field["name"]: field for field in schemas.load("JobV1").definition["fields"]}
    told = {name: field["default"] for name, field in fields.items() if "default" in field}
    plain = msgspec.to_builtins(JobSpec("", "t", "default", "x", b""))
    plain |= {"idempotency_key": "", "after": []}
    assert told == {name: plain[name] for name in told}
    assert set(fields) - set(told) == {"tenant", "type", "payload"}
    backoff = {field["name"]: field["default"] for field in fields["backoff"]["type"]["fields"]}
    assert backoff == msgspec.to_builtins(Backoff())


def test_fingerprints_are_crc_64_avro():
    assert (
        schemas.fingerprint({"type": "int"}).hex() == "8f5c393f1ad57572"
    )  # of the Avro specification's own tests
    told = json.loads((schemas.directory() / "examples" / "fingerprints.json").read_text())
    assert told == {name: schemas.load(name).fingerprint.hex() for name in framing.NAMES}
