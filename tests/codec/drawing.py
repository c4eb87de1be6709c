"""Draws records of any type that a schema of ours describes, within the bounds of its codec.

From a seeded generator instead of hypothesis: a state has a hundred fields, and drawing each by itself took a
hundred times as long as the codec under test. A failure names its seed, which draws the same record again.
"""

import random
import types
import typing
from typing import Any

import msgspec

from scheduler.codec import schemas
from scheduler.codec.record import RecordCodec
from scheduler.codec.source import SourceWriter, kind_of, without_none

ALPHABET = "ab/:-_ 09\x00\né߿ࠀ￿𐀀\U0010ffff"


def draw_record(codec: RecordCodec[Any], seed: int) -> Any:
    """Return one record of the codec's type."""
    definition = schemas.load(codec.name).definition
    return _Drawing(codec, SourceWriter(definition), random.Random(seed)).value(definition, codec.of, "")


class _Drawing:
    def __init__(self, codec: RecordCodec[Any], writer: SourceWriter, draw: random.Random) -> None:
        self._codec = codec
        self._writer = writer
        self._draw = draw

    def value(self, schema: Any, hint: Any, path: str, default: Any = None) -> Any:
        schema = self._writer.resolve(schema)
        return getattr(self, f"_{kind_of(schema)}")(schema, hint, path, default)

    def _union(self, schema: Any, hint: Any, path: str, default: Any) -> Any:
        return default if self._draw.random() < 0.4 else self.value(schema[1], without_none(hint), path)

    def _record(self, schema: Any, hint: Any, path: str, default: Any) -> Any:
        hints = typing.get_type_hints(hint)
        defaults = {field.name: field.default for field in msgspec.structs.fields(hint)}
        return hint(**{
            field["name"]: self.value(
                field["type"],
                hints[field["name"]],
                f"{path}.{field['name']}" if path else field["name"],
                defaults[field["name"]],
            )
            for field in schema["fields"]
        })  # fmt: skip

    def _number(self, path: str, bits: int) -> int:
        low, high = self._codec.ranges.get(path, (-(1 << bits), (1 << bits) - 1))
        size = self._draw.randint(0, bits)
        found = self._draw.choice(
            (low, high, self._draw.getrandbits(size + 1), -self._draw.getrandbits(size + 1))
        )
        return min(max(found, low), high)

    def _int(self, schema: Any, hint: Any, path: str, default: Any) -> int:
        return self._number(path, 31)

    def _long(self, schema: Any, hint: Any, path: str, default: Any) -> int:
        return self._number(path, 63)

    def _double(self, schema: Any, hint: Any, path: str, default: Any) -> float:
        return self._draw.choice((0.0, -1.0, 1e300, 5e-324, self._draw.random()))

    def _boolean(self, schema: Any, hint: Any, path: str, default: Any) -> bool:
        return self._draw.random() < 0.5

    def _enum(self, schema: Any, hint: Any, path: str, default: Any) -> Any:
        return self._draw.choice(list(hint))

    def _fixed(self, schema: Any, hint: Any, path: str, default: Any) -> bytes:
        return self._draw.randbytes(schema["size"])

    def _size(self, path: str) -> int:
        return min(self._draw.choice((0, 1, 5, 63, 64, 200)), self._codec.limits.get(path, 1 << 20))

    def _bytes(self, schema: Any, hint: Any, path: str, default: Any) -> bytes:
        return self._draw.randbytes(
            self._draw.choice((0, 1, 30, 20_000 if "." not in path else 3)) % self._limit(path)
        )

    def _limit(self, path: str) -> int:
        return self._codec.limits.get(path, 1 << 20)

    def _string(self, schema: Any, hint: Any, path: str, default: Any) -> str | None:
        if isinstance(hint, types.UnionType) and self._draw.random() < 0.5:
            return None
        text = "".join(self._draw.choices(ALPHABET, k=self._size(path)))
        return text.encode()[: self._limit(path)].decode(errors="ignore") or ("" if hint is str else None)

    def _array(self, schema: Any, hint: Any, path: str, default: Any) -> tuple[Any, ...]:
        count = self._draw.choice((0, 0, 1, 2, min(self._codec.limits[path], 9)))
        return tuple(self.value(schema["items"], typing.get_args(hint)[0], f"{path}[]") for _ in range(count))

    def _map(self, schema: Any, hint: Any, path: str, default: Any) -> dict[str, Any]:
        count = self._draw.choice((0, 0, 1, 2, min(self._codec.limits[path], 9)))
        value = typing.get_args(hint)[1]
        return {f"{n}é": self.value(schema["values"], value, f"{path}{{}}") for n in range(count)}
