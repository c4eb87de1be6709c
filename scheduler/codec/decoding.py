"""Writes decoders (see `source`)."""

import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from scheduler.codec.source import (
    Function,
    Limits,
    Ranges,
    SourceWriter,
    allows_none,
    check_fields,
    defaults_of,
    kind_of,
    symbols_of,
    without_none,
)


class _Decoder(SourceWriter):
    """Writes `run(d, p) -> (record, p)` for bytes `d` from position `p` on.

    Positions only grow, and each string moves `p` behind its declared end without looking whether the bytes
    are there: then the next read, or the caller's comparison with the length, finds that they are not.
    """

    def __init__(self, schema: dict[str, Any], limits: Limits, ranges: Ranges) -> None:
        super().__init__(schema)
        self._limits = limits
        self._ranges = ranges

    def value(self, schema: Any, hint: Any, path: str, default: Any = None) -> str:
        """Write the reading of one value; return the variable that holds it."""
        schema = self.resolve(schema)
        variable = self.fresh("v")
        getattr(self, f"_{kind_of(schema)}")(schema, hint, path, variable, default)
        return variable

    def _number(self, path: str, variable: str, far: str) -> None:
        self.add(path, "n = d[p]; p += 1")
        with self.block(path, "if n < 128:"):
            self.add(path, f"{variable} = SMALL[n]")
        with self.block(path, "elif d[p] < 128:"):  # two bytes, without a call
            self.add(path, f"n = n - 128 | d[p] << 7; p += 1; {variable} = n >> 1 ^ -(n & 1)")
        with self.block(path, "else:"):
            self.add(path, f"{variable}, p = {far}(d, p, n)")
        if path in self._ranges:
            low, high = self._ranges[path]
            with self.block(path, f"if not {low} <= {variable} <= {high}:"):
                self.add(path, f"raise out_of_range({variable}, {low}, {high})")

    def _long(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self._number(path, variable, "far_long")

    def _int(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self._number(path, variable, "far_int")

    def _double(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self.add(path, f"{variable}, = unpack_double(d, p); p += 8")
        with self.block(path, f"if {variable} - {variable} != 0.0:"):
            self.add(path, "raise MalformedError('not a finite number')")

    def _boolean(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self.add(path, f"{variable} = BOOLEANS[d[p]]; p += 1")

    def _span(self, path: str) -> None:
        self.add(path, "n = d[p]; p += 1")
        with self.block(path, "if n < 128:"):
            self.add(path, "q = p + LENGTHS[n]")
        with self.block(path, "else:"):
            self.add(path, "p, q = far_span(d, p, n)")
        if path in self._limits:
            with self.block(path, f"if q - p > {self._limits[path]}:"):
                self.add(path, f"raise OverLimitError(q - p, {self._limits[path]}, 'bytes')")

    def _string(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self._span(path)
        empty_is_none = " or None" if allows_none(hint) else ""
        self.add(path, f"{variable} = d[p:q].decode(){empty_is_none}; p = q")

    def _bytes(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self._span(path)
        self.add(path, f"{variable} = d[p:q]; p = q")

    def _fixed(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self.add(path, f"q = p + {schema['size']}; {variable} = d[p:q]; p = q")

    def _enum(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        found = symbols_of(hint, schema)
        # Zig-zag: index i is the byte 2i. More than 64 symbols would need two bytes.
        table = self.constant(
            "enum", {2 * index: found[symbol] for index, symbol in enumerate(schema["symbols"])}
        )
        self.add(path, f"{variable} = {table}[d[p]]; p += 1")

    def _union(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self.add(path, "n = d[p]; p += 1")
        with self.block(path, "if n == 2:"):
            inner = self.value(schema[1], without_none(hint), path)
            self.add(path, f"{variable} = {inner}")
        with self.block(path, "elif n == 0:"):
            self.add(path, f"{variable} = {self.constant('default', default)}")
        with self.block(path, "else:"):
            self.add(path, "raise MalformedError('no such branch')")

    def _record(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        check_fields(hint, schema)
        hints, defaults, found = typing.get_type_hints(hint), defaults_of(hint), {}
        for field in schema["fields"]:
            name = field["name"]
            below = f"{path}.{name}" if path else name
            found[name] = self.value(field["type"], hints[name], below, defaults.get(name))
        arguments = ", ".join(found[name] for name in hint.__struct_fields__)
        self.add(path, f"{variable} = {self.constant(hint.__name__, hint)}({arguments})")

    @contextmanager
    def _blocks(self, path: str, total: str) -> Iterator[None]:
        """Loop over the blocks of an array or map; a negative count comes with the block's size in bytes."""
        limit, left, size, start = (
            self._limits[path],
            self.fresh("left"),
            self.fresh("size"),
            self.fresh("start"),
        )
        self.add(path, f"n = d[p]; p += 1; {total} = 0")
        with self.block(path, "while n:"):
            self.add(path, f"{left}, {size}, p = block_head(d, p, n); {start} = p; {total} += {left}")
            with self.block(path, f"if {total} > {limit}:"):
                self.add(path, f"raise OverLimitError({total}, {limit}, 'items')")
            with self.block(path, f"while {left}:"):
                yield
                self.add(path, f"{left} -= 1")
            with self.block(path, f"if {size} >= 0 and p - {start} != {size}:"):
                self.add(path, "raise MalformedError('a block of another size than declared')")
            self.add(path, "n = d[p]; p += 1")

    def _array(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        items = self.fresh("items")
        self.add(path, f"{items} = []")
        with self._blocks(path, self.fresh("total")):
            inner = self.value(schema["items"], typing.get_args(hint)[0], f"{path}[]")
            self.add(path, f"{items}.append({inner})")
        self.add(path, f"{variable} = tuple({items}) if {items} else ()")

    def _map(self, schema: Any, hint: Any, path: str, variable: str, default: Any) -> None:
        self.add(path, f"{variable} = {{}}")
        with self._blocks(path, self.fresh("total")):
            key = self.value("string", str, f"{path}{{key}}")
            inner = self.value(schema["values"], typing.get_args(hint)[1], f"{path}{{}}")
            self.add(path, f"{variable}[{key}] = {inner}")


def decoder(schema: dict[str, Any], record: type[msgspec.Struct], limits: Limits, ranges: Ranges) -> Function:
    """Return `run(data, position) -> (record, position)`; every array and map of the schema needs a limit."""
    writer = _Decoder(schema, limits, ranges)
    variable = writer.value(schema, record, "")
    writer.add("", f"return {variable}, p")
    return writer.build("def run(d, p):", f"decoder of {schema['name']}")
