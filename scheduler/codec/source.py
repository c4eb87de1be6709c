"""What encoders and decoders are written with: one of each is made per record, from its schema and core type.

The hot path of a dispatcher is little else than records going in and out, and interpreting a schema for
each costs more than the work itself: a plain job record takes 8 µs to read and 10 to write with fastavro, the
core type included, and 3 and 2 here. And hostile bytes are bounded where they are read: counts are checked before
anything is allocated, negative lengths and overlong numbers are refused.
fastavro remains the judge: the tests compare every record with it, both ways.

A record type and its schema have the same fields, by name:

    long, int    int                 string            str; empty stands for None where None is allowed
    double       float (finite)      bytes, fixed      bytes
    boolean      bool                enum              StrEnum; the symbol `none` stands for ""
    record       Struct              array, map        tuple, dict with str keys
    null | x     x; null stands for the default of the field

A generated function keeps the field that each of its lines serves, so an error names the field at no cost
to those that go well. Generated code is made of schema files of ours alone, never of what was received.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

import msgspec

from scheduler.codec import primitives

Limits = Mapping[str, int]
"""By path (`emits`, `error.message`): the most items of an array or map, or bytes of a string."""

Ranges = Mapping[str, tuple[int, int]]
"""By path: the least and the greatest value of a number."""

_SCALARS: Final = {"boolean", "int", "long", "double", "string", "bytes"}


class Function(typing.NamedTuple):
    """A generated function, and the path of the field that each of its lines serves, by line number."""

    call: Callable[..., Any]
    paths: list[str]


class SourceWriter:
    """Collects the lines of one function, the names that they use, and the schema's named types."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.paths: list[str] = []
        self.names: dict[str, Any] = dict(vars(primitives))
        self.types: dict[str, dict[str, Any]] = {}
        self.depth = 1
        self._count = 0
        self._learn(schema)

    def _learn(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._learn(branch)
        elif isinstance(schema, dict):
            if "name" in schema:
                self.types[schema["name"]] = schema
            inner = [field["type"] for field in schema.get("fields", ())]
            for part in (*inner, schema.get("items"), schema.get("values")):
                self._learn(part)

    def resolve(self, schema: Any) -> Any:
        """Return the definition of a type that is used by its name."""
        return self.types[schema] if isinstance(schema, str) and schema not in _SCALARS else schema

    def add(self, path: str, *lines: str) -> None:
        for line in lines:
            self.lines.append("    " * self.depth + line)
            self.paths.append(path)

    @contextmanager
    def block(self, path: str, head: str) -> Iterator[None]:
        self.add(path, head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        """Return a variable name that is not used yet."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """Return a name that stands for `value`."""
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def build(self, head: str, title: str) -> Function:
        source = "\n".join([head, *self.lines])
        exec(compile(source, f"<{title}>", "exec"), self.names)  # noqa: S102 - made of our own schema files only
        return Function(self.names["run"], ["", "", *self.paths])


def kind_of(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


def without_none(hint: Any) -> Any:
    """Return X of `X | None`, and everything else as it is."""
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def allows_none(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint)


def symbols_of(enum: type[StrEnum], schema: dict[str, Any]) -> dict[str, StrEnum]:
    assert len(schema["symbols"]) <= 64, "an index of more than one byte"
    found = {member.value or "none": member for member in enum}
    if set(found) != set(schema["symbols"]):
        raise TypeError(f"{enum.__name__} and its schema differ: {set(found) ^ set(schema['symbols'])}")
    return found


def check_fields(record: type[msgspec.Struct], schema: dict[str, Any]) -> None:
    named = {field["name"] for field in schema["fields"]}
    if named != set(record.__struct_fields__):
        raise TypeError(f"{record.__name__} and its schema differ: {named ^ set(record.__struct_fields__)}")


def defaults_of(record: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        field.name: field.default
        for field in msgspec.structs.fields(record)
        if field.default is not msgspec.NODEFAULT
    }
