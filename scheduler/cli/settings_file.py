"""`settings.yaml`: queue settings as operators write them, checked before anything starts."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.client.durations import duration_ms
from scheduler.core import bounds, timing
from scheduler.core.inputs import TOPIC_OF
from scheduler.core.settings import QueueSettings, Settings
from scheduler.core.validation import NAME

LATER: Final = ("tenants", "bands", "schedules", "pools")
"""Top-level sections of the settings file that this version reads past."""

_OURS: Final = frozenset({*TOPIC_OF.values(), "changelog", "dlq", "lifecycle", "settings", "beacon", "audit"})


class SettingsError(Exception):
    """The settings file can't be used; the message names the place, the value and the limit."""


def load_settings(path: Path | None, prefix: str) -> Settings:
    """Return the settings of a file, the defaults without one. Raises `SettingsError`."""
    document = _document(path)
    for section in document:
        if section not in ("queues", "emits", *LATER):
            raise SettingsError(
                f"{path}: unknown section {section!r}; known are queues, emits, {', '.join(LATER)}"
            )
    emits = _emits(document.get("emits") or {}, prefix)
    return Settings(_queues(document.get("queues") or {}, emits))


def unkept_settings(path: Path | None) -> list[str]:
    """Return the places of a good settings file whose settings this version does not keep yet."""
    document = _document(path)
    queues = document.get("queues") or {}
    return [
        *(
            f"queues.{name}.{key}"
            for name, given in queues.items()
            for key in given or ()
            if key in _LATER_QUEUE
        ),
        *(section for section in document if section in LATER),
    ]


def _document(path: Path | None) -> Mapping[Any, Any]:
    if path is None:
        return {}
    try:
        document = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    if not isinstance(document, Mapping):
        raise SettingsError(f"{path}: must be a mapping of sections, got {type(document).__name__}")
    return document


def _queues(section: Any, emits: dict[str, frozenset[str]]) -> dict[str, QueueSettings]:
    """Read both sections into one entry for each name: a queue may stand in one by name, in the other by pattern."""
    if not isinstance(section, Mapping):
        raise SettingsError(f"queues: must be a mapping of names or patterns, got {type(section).__name__}")
    names = [*section, *(name for name in emits if name not in section)]
    return {
        name: _queue(name, _given(name, section) or {}, _given(name, emits) or frozenset()) for name in names
    }


def _given(name: Any, section: Mapping[Any, Any]) -> Any:
    """Return what a section gives for a name or pattern, by the rule of `core.settings.Settings`."""
    if name in section or not isinstance(name, str):
        return section.get(name)
    fitting = [each for each in section if isinstance(each, str) and "*" in each and fnmatchcase(name, each)]
    return section[max(fitting, key=len)] if fitting else None


def _queue(name: Any, given: Any, emits: frozenset[str]) -> QueueSettings:
    if not isinstance(name, str) or not NAME.fullmatch(name.replace("*", "x")):
        raise SettingsError(f"queues: {name!r} is not a queue name or pattern")
    if not isinstance(given, Mapping):
        raise SettingsError(f"queues.{name}: must be a mapping, got {type(given).__name__}")
    fields: dict[str, Any] = {"emits": emits}
    for key, value in given.items():
        where = f"queues.{name}.{key}"
        if key in _LATER_QUEUE:
            continue
        if key not in _FIELDS:
            raise SettingsError(f"{where}: unknown setting; known are {', '.join([*_FIELDS, *_LATER_QUEUE])}")
        field, read = _FIELDS[key]
        fields[field] = read(where, value)
    return QueueSettings(**fields)


def _duration(low_ms: int, high_ms: int) -> Callable[[str, Any], int]:
    def read(where: str, value: Any) -> int:
        try:
            found = duration_ms(value)
        except ValueError as error:
            raise SettingsError(f"{where}: {error}") from None
        if not low_ms <= found <= high_ms:
            raise SettingsError(f"{where}: {value} is not between {low_ms} ms and {high_ms} ms")
        return found

    return read


def _pool(where: str, value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value) or "/" in value or ":" in value:
        raise SettingsError(f"{where}: {value!r} is not a pool name: it becomes part of a topic name")
    return value


def _payload(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= bounds.PAYLOAD_MAX_BYTES:
        raise SettingsError(f"{where}: {value!r} is not a number of bytes up to {bounds.PAYLOAD_MAX_BYTES}")
    return value


def _emits(section: Any, prefix: str) -> dict[str, frozenset[str]]:
    """Read which queues may emit to which topics: never to ours."""
    if not isinstance(section, Mapping):
        raise SettingsError(f"emits: must be a mapping of queues, got {type(section).__name__}")
    found: dict[str, frozenset[str]] = {}
    for queue, topics in section.items():
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise SettingsError(f"emits.{queue}: must be a list of topic names")
        for topic in topics:
            bare = topic.removeprefix(prefix) if topic.startswith(prefix) else None
            if bare is not None and (bare in _OURS or bare.startswith("leases.")):
                raise SettingsError(f"emits.{queue}: {topic} is the scheduler's own topic")
        found[queue] = frozenset(topics)
    return found


_FIELDS: Final[dict[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "pool": ("pool", _pool),
    "lease": ("lease_ms", _duration(timing.LEASE_MIN_MS, timing.LEASE_MAX_MS)),
    "timeout": ("timeout_max_ms", _duration(bounds.TIMEOUT_MIN_MS, bounds.TIMEOUT_MAX_MS)),
    "max_payload_bytes": ("payload_max_bytes", _payload),
    "keep_succeeded": ("keep_succeeded_ms", _duration(0, 366 * bounds.DAY_MS)),
    "keep_cancelled": ("keep_cancelled_ms", _duration(0, 366 * bounds.DAY_MS)),
    "keep_failed": ("keep_failed_ms", _duration(0, 366 * bounds.DAY_MS)),
    "keep_keys": ("keep_keys_ms", _duration(0, 366 * bounds.DAY_MS)),
}
_LATER_QUEUE: Final = ("concurrency", "rate", "max_attempts")
