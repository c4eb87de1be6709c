"""Job records framed for a schema registry: `00`, a 4-byte schema id, a body in the schema of its writer.

Such a schema comes from outside, so it is looked at before it is used: only subjects on the allow-list, no
recursion (a few kilobytes of nested records would end the process), nothing that takes no bytes (a count of 2^62
of those costs no input), and nothing but what resolves to `JobV1`. What one id means never changes, so both answers,
yes and no, are kept per id.
"""

import io
import json
from functools import cache
from typing import Any, Final, Protocol

import fastavro
import msgspec

from scheduler.codec import framing, schemas
from scheduler.codec.errors import Refused
from scheduler.core import bounds
from scheduler.core.outputs import Refusal
from scheduler.core.spec import Backoff, JobSpec, OnParentFailure

_SCHEMA_MAX_BYTES: Final = 64 * bounds.KIB
_DEPTH_MAX: Final = 16
_TYPES_MAX: Final = 1_000
_CACHED_MAX: Final = 10_000
_READS_MAX: Final = 20_000  # a fair record takes a few hundred


class RegisteredSchema(msgspec.Struct, frozen=True):
    """What a registry knows under one id: the schema as JSON text, and the subjects that use it."""

    text: str
    subjects: frozenset[str]


class Registry(Protocol):
    """Looks schemas up."""

    def resolve(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema of an id, or None if the registry says there is none.

        Raises `RegistryUnavailable` if it can't be asked. Must not take longer than a few seconds, and must
        remember for a while that an id is unknown: each record that bears one comes to this.
        """


class Confluent:
    """Decodes job records in the framing of a schema registry, and remembers what its ids mean."""

    def __init__(self, registry: Registry, subjects: frozenset[str]) -> None:
        """Accept schemas that are registered under one of `subjects`."""
        self._registry = registry
        self._subjects = subjects
        self._known: dict[int, Any] = {}  # id -> parsed schema, or the refusal

    def decode(self, value: bytes) -> JobSpec:
        """Return the job in a framed value, or raise `Refused` or `RegistryUnavailable`."""
        if len(value) > bounds.SPEC_MAX_BYTES:
            raise Refused(
                Refusal.TOO_LARGE,
                f"a job record of {len(value)} bytes above the limit {bounds.SPEC_MAX_BYTES}",
            )
        writer = self._writer(int.from_bytes(value[1 : framing.CONFLUENT_BYTES], "big"))
        stream = _Metered(value)
        stream.seek(framing.CONFLUENT_BYTES)
        try:
            spec: JobSpec | str = _spec_of(fastavro.schemaless_reader(stream, writer, _reader()))
        except Exception as error:  # noqa: BLE001 - whatever the bytes, only a refusal leaves
            spec = f"can't be decoded with the schema of its writer ({type(error).__name__})"
        if isinstance(spec, str):
            raise Refused(Refusal.UNDECODABLE, spec)
        left = len(value) - stream.tell()
        if left:
            raise Refused(Refusal.TRAILING_BYTES, f"{left} bytes follow the record")
        return spec

    def _writer(self, schema_id: int) -> Any:
        found = self._known.get(schema_id)
        if found is None:
            found = self._judge(schema_id)
            if len(self._known) >= _CACHED_MAX:
                self._known.clear()
            self._known[schema_id] = found
        if isinstance(found, str):
            raise Refused(Refusal.SCHEMA_NOT_ALLOWED, found)
        return found

    def _judge(self, schema_id: int) -> Any:
        """Return the parsed schema of an id, or why it is not accepted."""
        registered = self._registry.resolve(schema_id)
        if registered is None:
            # Not remembered: the id may be given out a moment later.
            raise Refused(Refusal.SCHEMA_UNKNOWN, f"the registry knows no schema {schema_id}")
        if not registered.subjects & self._subjects:
            return f"schema {schema_id} is registered under none of the accepted subjects"
        if len(registered.text) > _SCHEMA_MAX_BYTES:
            return (
                f"schema {schema_id} has {len(registered.text)} characters, the limit is {_SCHEMA_MAX_BYTES}"
            )
        try:
            return _accepted(json.loads(registered.text))
        except _UnacceptableError as error:
            return f"schema {schema_id} {error}"
        except Exception as error:  # noqa: BLE001 - a schema from outside may fail in any way
            return f"schema {schema_id} is no usable Avro schema ({type(error).__name__})"


class _UnacceptableError(Exception):
    """A schema from outside that we don't use; the text says why."""


class _Metered(io.BytesIO):
    """A stream that refuses what fastavro lets pass: short reads, negative lengths, and more reads than fair."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._left = _READS_MAX

    def read(self, size: int | None = -1, /) -> bytes:
        self._left -= 1
        if size is None or size < 0 or self._left < 0:
            raise EOFError
        data = super().read(size)
        if len(data) != size:
            raise EOFError
        return data


@cache
def _reader() -> Any:
    return fastavro.parse_schema(schemas.load("JobV1").definition)


def _accepted(schema: Any) -> Any:
    """Return `schema` parsed, if it is one that we use."""
    plain = _Walk().plain(schema, "", 0)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise _UnacceptableError("is no record")
    writer = fastavro.parse_schema(plain)
    _check_resolvable(writer)
    return writer


def _check_resolvable(writer: Any) -> None:
    """Raise if a record of this schema could never be read as a job."""
    if writer["name"].rpartition(".")[2] != "JobV1":
        raise _UnacceptableError("is not named JobV1")
    fields = {field["name"]: field["type"] for field in writer["fields"]}
    wanted = schemas.load("JobV1").definition["fields"]
    missing = [field["name"] for field in wanted if "default" not in field and field["name"] not in fields]
    if missing:
        raise _UnacceptableError(f"has no field {', '.join(missing)}")


class _Walk:
    """Copies a schema without logical types (times are read as the plain numbers they are), and checks it."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._sizes = 0

    def plain(self, schema: Any, namespace: str, depth: int) -> Any:
        """Return a copy of `schema`, or raise."""
        self._sizes += 1
        if depth > _DEPTH_MAX or self._sizes > _TYPES_MAX:
            raise _UnacceptableError("is nested too deeply or has too many types")
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [
                branch if branch == "null" else self.plain(branch, namespace, depth + 1) for branch in schema
            ]
        return self._defined(
            {key: value for key, value in schema.items() if key != "logicalType"}, namespace, depth
        )

    def _named(self, name: str, namespace: str) -> str:
        if name == "null":
            raise _UnacceptableError("has a value that takes no bytes")
        if {name, f"{namespace}.{name}"} & self._open:
            raise _UnacceptableError("is recursive")
        return name

    def _defined(self, schema: dict[str, Any], namespace: str, depth: int) -> Any:
        kind = schema["type"]
        if kind == "null" or (kind == "fixed" and schema["size"] < 1):
            raise _UnacceptableError("has a value that takes no bytes")
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return {**schema, part: self.plain(schema[part], namespace, depth + 1)}
        if kind in ("record", "error"):
            return self._record(schema, namespace, depth)
        if isinstance(kind, dict | list):
            return self.plain(kind, namespace, depth + 1)
        return schema

    def _record(self, schema: dict[str, Any], namespace: str, depth: int) -> Any:
        name = schema["name"]
        namespace = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if not schema["fields"]:
            raise _UnacceptableError("has a value that takes no bytes")
        self._open.add(full)
        fields = [
            {**field, "type": self.plain(field["type"], namespace, depth + 1)} for field in schema["fields"]
        ]
        self._open.discard(full)
        return {**schema, "fields": fields}


def _spec_of(job: Any) -> JobSpec:
    """Return the job of a datum that was resolved to `JobV1`."""
    return JobSpec(
        job_id=job["job_id"],
        tenant=job["tenant"],
        queue=job["queue"],
        type=job["type"],
        payload=bytes(job["payload"]),
        content_type=job["content_type"],
        priority=job["priority"],
        run_at_ms=job["run_at_ms"],
        expires_at_ms=job["expires_at_ms"],
        max_attempts=job["max_attempts"],
        timeout_ms=job["timeout_ms"],
        backoff=Backoff(**job["backoff"]),
        idempotency_key=job["idempotency_key"] or None,
        after=tuple(job["after"]),
        on_parent_failure=OnParentFailure(job["on_parent_failure"]),
        labels=dict(job["labels"]),
    )
