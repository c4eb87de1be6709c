"""Writes encoders (see `source`)."""

import typing
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from scheduler.codec.source import (
    Function,
    SourceWriter,
    allows_none,
    check_fields,
    defaults_of,
    kind_of,
    symbols_of,
    without_none,
)


class _Encoder(SourceWriter):
    """Writes `run(o) -> bytes` for a record `o`.

    Each value becomes expressions for the bytes that it consists of; what is not bytes, not in range or not
    of the right type raises on the line of its field.
    """

    def __init__(self, schema: dict[str, Any], shared: AbstractSet[str]) -> None:
        super().__init__(schema)
        self._shared = shared

    def value(
        self, schema: Any, hint: Any, path: str, source: str, default: Any = None
    ) -> list[tuple[str, str]]:
        """Write what precedes; return (path, expression) of each part of the encoded value."""
        schema = self.resolve(schema)
        parts: list[str] | list[tuple[str, str]] = getattr(self, f"_{kind_of(schema)}")(
            schema, hint, path, source, default
        )
        return [part if isinstance(part, tuple) else (path, part) for part in parts]

    def _local(self, path: str, source: str) -> str:
        variable = self.fresh("v")
        self.add(path, f"{variable} = {source}")
        return variable

    def _long(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        v = self._local(path, source)
        # Present times have 28 to 41 bits and are in most records; a call would cost more than the rest.
        present = f"GROUPS[{v} << 1 & 16383] + GROUPS[{v} >> 13 & 16383] + VARINTS[{v} >> 27]"
        is_present = f"{v}.__class__ is int and {1 << 27} <= {v} < {1 << 41}"
        return [self._short(v, f"{present} if {is_present} else put_long({v})")]

    @staticmethod
    def _short(v: str, other: str) -> str:
        """Return the expression for numbers of up to 27 bits: counts, offsets, epochs, durations."""
        middle = f"GROUPS[{v} << 1 & 16383] + VARINTS[{v} >> 13] if {v}.__class__ is int and 8191 < {v} < {1 << 27}"
        return f"NUMBERS[{v}] if {v}.__class__ is int and 0 <= {v} < 8192 else {middle} else {other}"

    def _int(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        v = self._local(path, source)
        return [self._short(v, f"put_int({v})")]

    def _double(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        return [f"put_double({source})"]

    def _boolean(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        return [f"FLAGS[{source}]"]

    def _lengthy(self, variable: str) -> list[str]:
        return [
            f"NUMBERS[n] if (n := len({variable})) < 8192 else put_long(n)",
            variable,
        ]

    def _string(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        v = self._local(path, f"({source} or '').encode()" if allows_none(hint) else f"{source}.encode()")
        return self._lengthy(v)

    def _bytes(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        v = self._local(path, source)
        with self.block(path, f"if {v}.__class__ is not bytes:"):
            self.add(path, f"raise wrong_type({v}, 'bytes')")
        return self._lengthy(v)

    def _fixed(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        v = self._local(path, source)
        with self.block(path, f"if {v}.__class__ is not bytes or len({v}) != {schema['size']}:"):
            self.add(path, f"raise wrong_type({v}, '{schema['size']} bytes')")
        return [v]

    def _enum(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        found = symbols_of(hint, schema)
        table = {found[symbol]: bytes([2 * index]) for index, symbol in enumerate(schema["symbols"])}
        return [f"{self.constant('enum', table)}[{source}]"]

    def _joined(self, parts: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Lines of one expression that joins `parts`, each on the line of its field."""
        yield parts[0][0], 'b"".join(('
        yield from ((path, f"    {part},") for path, part in parts)
        yield parts[0][0], "))"

    def assign(self, target: str, parts: list[tuple[str, str]]) -> None:
        """Write `target`, such as `x = `, followed by the joined parts."""
        for path, line in self._joined(parts):
            self.add(path, target + line)
            target = ""

    def _union(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        v, joined, absent = self._local(path, source), self.fresh("u"), self.constant("default", default)
        equal = "" if default is None else f" or {v} == {absent}"
        with self.block(path, f"if {v} is {absent}{equal}:"):
            self.add(path, f"{joined} = ZERO")
        with self.block(path, "else:"):
            inner = self.value(schema[1], without_none(hint), path, v)
            self.assign(f"{joined} = ", [(path, "FIRST"), *inner])
        return [joined]

    def _record(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[tuple[str, str]]:
        check_fields(hint, schema)
        variable = self._local(path, source) if path else source
        if path not in self._shared:
            return self._fields(schema, hint, path, variable)
        known, kept = self.constant("known", Kept()), self.fresh("kept")
        self.add(path, f"{kept} = {known}.get(id({variable}))")
        with self.block(path, f"if {kept} is None or {kept}[0] is not {variable}:"):
            whole = self.fresh("whole")
            self.assign(f"{whole} = ", self._fields(schema, hint, path, variable))
            self.add(path, f"{kept} = {known}.keep({variable}, {whole})")
        return [(path, f"{kept}[1]")]

    def _fields(self, schema: Any, hint: Any, path: str, variable: str) -> list[tuple[str, str]]:
        hints, defaults, parts = typing.get_type_hints(hint), defaults_of(hint), []
        for field in schema["fields"]:
            name = field["name"]
            below = f"{path}.{name}" if path else name
            parts += self.value(field["type"], hints[name], below, f"{variable}.{name}", defaults.get(name))
        return parts

    @contextmanager
    def _several(self, path: str, source: str, joined: str, head: str) -> Iterator[str]:
        """Write the loop over an array or map around what the caller writes; give the list that takes the parts."""
        v, items = self._local(path, source), self.fresh("items")
        with self.block(path, f"if not {v}:"):
            self.add(path, f"{joined} = ZERO")
        with self.block(path, "else:"):
            self.add(path, f"{items} = [put_long(len({v}))]")
            with self.block(path, head.format(v)):
                yield items
            self.add(path, f"{items}.append(ZERO); {joined} = b''.join({items})")

    def _array(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        joined, item = self.fresh("a"), self.fresh("item")
        with self._several(path, source, joined, f"for {item} in {{}}:") as items:
            inner = self.value(schema["items"], typing.get_args(hint)[0], f"{path}[]", item)
            self._extend(items, inner)
        return [joined]

    def _extend(self, items: str, parts: list[tuple[str, str]]) -> None:
        self.add(parts[0][0], f"{items} += (")
        for path, part in parts:
            self.add(path, f"    {part},")
        self.add(parts[0][0], ")")

    def _map(self, schema: Any, hint: Any, path: str, source: str, default: Any) -> list[str]:
        joined, key, item = self.fresh("m"), self.fresh("key"), self.fresh("item")
        with self._several(path, source, joined, f"for {key}, {item} in {{}}.items():") as items:
            parts = self.value("string", str, f"{path}{{key}}", key)
            parts += self.value(schema["values"], typing.get_args(hint)[1], f"{path}{{}}", item)
            self._extend(items, parts)
        return [joined]


class Kept(dict[int, tuple[object, bytes]]):
    """What shared parts of records were encoded to, by identity. An entry keeps its part alive, so ids stay unique."""

    def keep(self, part: object, encoded: bytes) -> tuple[object, bytes]:
        """Remember a part; return its entry."""
        if len(self) >= _KEPT_MAX:
            self.clear()
        entry = self[id(part)] = (part, encoded)
        return entry


_KEPT_MAX: Final = 16_384  # about as many MB of states' parts


def encoder(
    schema: dict[str, Any], record: type[msgspec.Struct], header: bytes, shared: AbstractSet[str]
) -> Function:
    """Return `run(record) -> bytes`, with `header` in front.

    `shared` names fields that hold records which one record after the other has in common: each is encoded once.
    """
    writer = _Encoder(schema, shared)
    parts = writer.value(schema, record, "", "o")
    writer.assign("return ", [("", writer.constant("header", header)), *parts])
    return writer.build("def run(o):", f"encoder of {schema['name']}")
