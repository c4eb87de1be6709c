"""How an offending value appears in a message to whoever passed it: short, and never failing."""

import difflib
from collections.abc import Iterable
from typing import Final

_LONGEST_CHARS: Final = 40
_NAME_LONGEST_CHARS: Final = 64


def shown(value: object) -> str:
    """Return the beginning of `repr(value)`."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a broken repr must not hide the mistake that is being told
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= _LONGEST_CHARS else text[:_LONGEST_CHARS] + "…"


def shown_with_type(value: object) -> str:
    """Return the type and the beginning of a value: `int 17`."""
    return "None" if value is None else f"{type(value).__qualname__} {shown(value)}"


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the message for a name that is none of `known`, with the one that was probably meant."""
    text = str(name)[:_NAME_LONGEST_CHARS]
    near = difflib.get_close_matches(text, known, n=1)
    return f"unknown {what} {text!r}" + (f": did you mean {near[0]!r}?" if near else "")
