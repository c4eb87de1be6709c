"""What an operator may give up, and how that is said."""

import click
import pytest

from scheduler.cli.accepted_losses import accepted_losses


def test_inputs_are_named_as_the_error_names_them():
    given = ("submit.default/3@800", "retry.30s/0@1", "submit.default/4@0")
    assert accepted_losses(given, 8) == {
        ("submit.default", 3): 800,
        ("retry.30s", 0): 1,
        ("submit.default", 4): 0,
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("submit.default", "is not TOPIC/PARTITION@OFFSET"),
        ("submit.default/3@-1", "is not TOPIC/PARTITION@OFFSET"),
        ("submit.default/3@9999999999999999999", "is not TOPIC/PARTITION@OFFSET"),
        ("changelog/3@8", "names no input; those are commands, "),
        ("submit.default/8@8", "names partition 8 of 8"),
    ],
)
def test_anything_else_is_refused_by_name(text, why):
    with pytest.raises(click.BadParameter, match=f"'{text}' {why}"):
        accepted_losses([text], 8)
