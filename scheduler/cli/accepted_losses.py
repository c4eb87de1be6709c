"""`--accept-loss TOPIC/PARTITION@OFFSET`: which lost records an operator gives up."""

import re
from collections.abc import Iterable
from typing import Final

import click

from scheduler.core.inputs import TOPIC_OF

_ACCEPTED: Final = re.compile(r"([a-z0-9.]{1,64})/([0-9]{1,9})@([0-9]{1,18})")


def accepted_losses(given: Iterable[str], shards: int) -> dict[tuple[str, int], int]:
    """Return from which offset each input goes on, by topic without prefix and partition."""
    return dict(_parsed(text, shards) for text in given)


def _parsed(text: str, shards: int) -> tuple[tuple[str, int], int]:
    match = _ACCEPTED.fullmatch(text)
    topics = sorted(TOPIC_OF.values())
    if match is None:
        wrong = "is not TOPIC/PARTITION@OFFSET, like submit.default/3@800"
    elif match[1] not in topics:
        wrong = f"names no input; those are {', '.join(topics)}"
    elif int(match[2]) >= shards:
        wrong = f"names partition {match[2]} of {shards}"
    else:
        return (match[1], int(match[2])), int(match[3])
    raise click.BadParameter(f"'{text}' {wrong}", param_hint="--accept-loss")
