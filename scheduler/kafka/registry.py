"""Asks a schema registry what an id means: the `codec.confluent.Registry` over HTTP.

Two GET requests of the registry's API (`/schemas/ids/{id}` and `/schemas/ids/{id}/subjects`) are all that is needed,
so the standard library does; confluent_kafka's own client would bring seven more packages.
"""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from scheduler.codec.confluent import RegisteredSchema
from scheduler.codec.errors import RegistryUnavailable

UNKNOWN_S: Final = 30.0
"""An id that the registry does not know is not asked for again for so long: each record with it comes to that."""

DOWN_S: Final = 2.0
"""Nor is a registry that did not answer: the caller is the dispatcher's only thread."""

_ANSWER_MAX_BYTES: Final = 1 << 20
_UNKNOWN_MAX: Final = 10_000


class RegistrySettings(msgspec.Struct, frozen=True):
    """Where the registry is. `user_info` is `user:password`; `ca_file` a PEM file, the system's if empty.

    Raises `ValueError` if `url` is not http or https.
    """

    url: str
    user_info: str = ""
    ca_file: str = ""
    timeout_s: float = 1.5  # of one request; two are made, far below the consumers' max.poll.interval.ms

    def __post_init__(self) -> None:
        """Check the address."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"'{self.url}' is no http:// or https:// address of a schema registry")


class HttpRegistry:
    """See `codec.confluent.Registry`. What an id means never changes; the decoder keeps it, not this."""

    def __init__(self, settings: RegistrySettings, now_s: Callable[[], float] = time.monotonic) -> None:
        """Connect lazily; `now_s` is a clock that never steps."""
        self._settings = settings
        self._now_s = now_s
        self._unknown: dict[int, float] = {}
        self._down_until_s = 0.0
        self._why_down = ""

    def resolve(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema of an id, or None if the registry says there is none."""
        if self._now_s() < self._unknown.get(schema_id, 0.0):
            return None
        if self._now_s() < self._down_until_s:
            raise RegistryUnavailable(f"schema {schema_id}: {self._why_down}")
        try:
            found = self._ask(schema_id)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._down_until_s = self._now_s() + DOWN_S
            self._why_down = f"{self._settings.url}: {error}"
            raise RegistryUnavailable(f"schema {schema_id}: {self._why_down}") from error
        if found is None:
            if len(self._unknown) >= _UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[schema_id] = self._now_s() + UNKNOWN_S
        return found

    def _ask(self, schema_id: int) -> RegisteredSchema | None:
        schema = self._get(f"/schemas/ids/{schema_id}")
        if schema is None:
            return None
        subjects = self._get(f"/schemas/ids/{schema_id}/subjects") or []
        if not isinstance(schema, dict) or not isinstance(subjects, list):
            raise ValueError("not the answer of a schema registry")
        if schema.get("schemaType", "AVRO") != "AVRO" or schema.get("references"):
            return RegisteredSchema("null", frozenset())  # registered, but nothing that we read
        return RegisteredSchema(str(schema.get("schema", "")), frozenset(map(str, subjects)))

    def _get(self, path: str) -> Any:
        """Return the JSON at `path`, or None for 404."""
        parts = urlsplit(self._settings.url)
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers=self._headers())
            answer = connection.getresponse()
            body = answer.read(_ANSWER_MAX_BYTES + 1)
        finally:
            connection.close()
        if answer.status == http.client.NOT_FOUND:
            return None
        if answer.status != http.client.OK or len(body) > _ANSWER_MAX_BYTES:
            raise ValueError(f"answered {answer.status} with {len(body)} bytes")
        return json.loads(body)

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._settings.timeout_s)
        trust = ssl.create_default_context(cafile=self._settings.ca_file or None)
        return http.client.HTTPSConnection(host, port, timeout=self._settings.timeout_s, context=trust)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._settings.user_info:
            token = base64.b64encode(self._settings.user_info.encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        return headers
