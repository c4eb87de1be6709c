"""Where the connection to Kafka comes from: environment, properties file, command line. Pure.

One vocabulary everywhere: librdkafka's property names. ``KAFKA_SASL_MECHANISM=PLAIN`` is ``sasl.mechanism=PLAIN``.
"""

import re
from collections.abc import Mapping

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP = "bootstrap.servers"

_PREFIX = "KAFKA_"

_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_\d+_.*)$")
"""What Kubernetes puts into every pod for a service named ``kafka`` or ``kafka-...``: addresses, no settings."""

_FOR_KAFKAS_OWN_SCRIPTS = re.compile(r"KAFKA_(HOME|DEBUG|(.*_)?OPTS)$")
"""What Kafka's shell scripts read (``KAFKA_HEAP_OPTS`` and the like); librdkafka would refuse it as unknown."""


def connection_from(environ: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """The librdkafka properties of one connection.

    ``KAFKA_*`` variables of ``environ`` lie below, ``overrides`` (property names already) on top; without either
    ``bootstrap.servers`` is 127.0.0.1:9092, where ``scheduler dev`` listens. An empty value means "not set".
    """
    merged = {BOOTSTRAP: DEFAULT_BOOTSTRAP}
    merged.update(_from_environment(environ))
    merged.update({name: value for name, value in overrides.items() if value})
    return merged


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_PREFIX).lower().replace("_", "."): value
        for name, value in environ.items()
        if _is_setting(name) and value
    }


def _is_setting(name: str) -> bool:
    return (
        name.startswith(_PREFIX)
        and name != _PREFIX
        and not _SERVICE_LINK.search(name)
        and not _FOR_KAFKAS_OWN_SCRIPTS.match(name)
    )


def properties_from(text: str) -> dict[str, str]:
    """The ``key=value`` lines of a properties file; ``#`` and ``!`` start a comment line.

    Raises ValueError with the line's number for a line that is none of these.
    """
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"line {number} is not key=value: {stripped.split()[0]} ...")
        properties[name.strip()] = value.strip()
    return properties
