"""The schemas of the project, as files: in the wheel beside this package, in a checkout at its top."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import fastavro.schema
import msgspec

_PACKAGE: Final = Path(__file__).resolve().parents[1]


class Schema(msgspec.Struct, frozen=True):
    """One record type: its name without namespace, its definition, its 8-byte CRC-64-AVRO fingerprint.

    The fingerprint is in the order of bytes in which single-object encoding writes it.
    """

    name: str
    definition: dict[str, Any]
    fingerprint: bytes


def directory() -> Path:
    """Return the folder that holds the `.avsc` files."""
    packaged = _PACKAGE / "schemas"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "schemas"


@cache
def load(name: str) -> Schema:
    """Return the schema `name`, such as `JobV1`."""
    definition: dict[str, Any] = json.loads((directory() / f"{name}.avsc").read_text(encoding="utf-8"))
    return Schema(name, definition, fingerprint(definition))


def fingerprint(definition: dict[str, Any]) -> bytes:
    """Return the CRC-64-AVRO fingerprint of a schema's parsing canonical form, least significant byte first."""
    canonical = fastavro.schema.to_parsing_canonical_form(definition)
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
