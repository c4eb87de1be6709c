"""Draws records of any type that a schema of ours describes, within the bounds of its codec."""

import types
import typing
from enum import StrEnum
from typing import Any

import msgspec
from hypothesis import strategies as st

from scheduler.codec import schemas
from scheduler.codec.record import RecordCodec
from scheduler.codec.source import SourceWriter, kind_of, without_none

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def records(codec: RecordCodec[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for the records of one codec."""
    definition = schemas.load(codec.name).definition
    return _Drawing(codec, SourceWriter(definition)).of(definition, codec.of, "")


class _Drawing:
    def __init__(self, codec: RecordCodec[Any], writer: SourceWriter) -> None:
        self._codec = codec
        self._writer = writer

    def of(self, schema: Any, hint: Any, path: str, default: Any = None) -> st.SearchStrategy[Any]:
        schema = self._writer.resolve(schema)
        kind = kind_of(schema)
        if kind == "union":
            inner = self.of(schema[1], without_none(hint), path)
            return st.just(default) | inner
        if kind in ("int", "long"):
            bits = 31 if kind == "int" else 63
            low, high = self._codec.ranges.get(path, (-(1 << bits), (1 << bits) - 1))
            return st.integers(max(low, 0), min(high, 9_000)) | st.integers(low, high)
        if kind == "record":
            return self._record(schema, hint, path)
        if kind in ("array", "map"):
            return self._several(kind, schema, hint, path)
        if kind == "enum":
            assert issubclass(hint, StrEnum)
            return st.sampled_from(list(hint))
        if kind == "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        if kind == "bytes":
            return st.binary(max_size=40)
        if kind == "string":
            text = _TEXT.filter(lambda text: len(text.encode()) <= self._codec.limits.get(path, 1 << 20))
            return text | st.none() if isinstance(hint, types.UnionType) else text
        return {"boolean": st.booleans(), "double": st.floats(allow_nan=False, allow_infinity=False)}[kind]

    def _record(self, schema: Any, hint: Any, path: str) -> st.SearchStrategy[Any]:
        hints = typing.get_type_hints(hint)
        defaults = {field.name: field.default for field in msgspec.structs.fields(hint)}
        return st.builds(
            hint,
            **{
                field["name"]: self.of(
                    field["type"],
                    hints[field["name"]],
                    f"{path}.{field['name']}" if path else field["name"],
                    default=defaults[field["name"]],
                )
                for field in schema["fields"]
            },
        )

    def _several(self, kind: str, schema: Any, hint: Any, path: str) -> st.SearchStrategy[Any]:
        most = min(self._codec.limits[path], 4)
        if kind == "array":
            item = self.of(schema["items"], typing.get_args(hint)[0], f"{path}[]")
            return st.lists(item, max_size=most).map(tuple)
        value = self.of(schema["values"], typing.get_args(hint)[1], f"{path}{{}}")
        return st.dictionaries(_TEXT, value, max_size=most)
