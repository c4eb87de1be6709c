"""A click group whose commands are imported when they are called, so that ``--help`` stays quick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True)
class LazyCommand:
    """Where a command lives (``module:attribute``), and the line that the list of commands shows."""

    target: str
    short_help: str


class LazyGroup(click.Group):
    """Sections of commands, by name. A section's title stands in the help."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, LazyCommand]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._lazy = {name: command for section in sections.values() for name, command in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), lazy.target
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A mistyped name is answered with the nearest one."""
        name = args[0]
        if name not in self._lazy and not name.startswith("-"):
            ctx.fail(f"no command '{name}'.{_suggestion(name, list(self._lazy))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table alone."""
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, command.short_help) for name, command in commands.items()])


def _suggestion(name: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, names, 1)
    return f" Did you mean '{near[0]}'?" if near else " See 'scheduler --help'."
