"""The connection that every command shares: ``ctx.obj``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from scheduler.cli import exits
from scheduler.kafka.connection import BOOTSTRAP, connection_from, properties_from

ANSWER_S = 10.0


@dataclass(frozen=True)
class Connection:
    """librdkafka properties, ``bootstrap.servers`` among them; lowest first: environment, file, -X, -b."""

    properties: dict[str, str]

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers``."""
        return self.properties[BOOTSTRAP]

    def answers(self, within_s: float) -> bool:
        """Does a broker answer within that time?"""
        from scheduler.kafka.readiness import answers

        return answers(self.properties, within_s)

    def require_answer(self, within_s: float = ANSWER_S) -> None:
        """Raise exits.Unavailable, with what to do, unless a broker answers."""
        if not self.answers(within_s):
            raise exits.Unavailable(
                f"no broker answered at {self.bootstrap}. "
                "Start one with 'scheduler dev', or set KAFKA_BOOTSTRAP_SERVERS"
            )


def connection_of(
    environ: Mapping[str, str], bootstrap: str | None, pairs: Sequence[str], file: Path | None
) -> Connection:
    """What the global options and the environment say together. Raises click.BadParameter."""
    overrides: dict[str, str] = {}
    if file is not None:
        try:
            overrides.update(properties_from(file.read_text()))
        except (OSError, ValueError) as error:
            raise click.BadParameter(f"{file}: {error}", param_hint="--command-config") from error
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{pair}' is not KEY=VALUE", param_hint="-X")
        overrides[name] = value
    if bootstrap:
        overrides[BOOTSTRAP] = bootstrap
    return Connection(connection_from(environ, overrides))
