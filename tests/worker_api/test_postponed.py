"""Handlers in modules with postponed annotations, where every annotation is text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from scheduler import App, InvalidJob

if TYPE_CHECKING:
    from decimal import Decimal

    from scheduler import Context

app = App("postponed")


@app.job()
def early(ctx: Context, order: Order) -> Undefined:  # noqa: F821 - what it returns is nobody's business
    return order.number


@dataclass
class Order:
    number: int


def test_names_defined_further_down_and_a_context_for_type_checkers_only():
    assert early.definition.takes_context
    payload = early.definition.arguments.encode((Order(5),), {})
    assert early.definition.arguments.decode(payload).kwargs == {"order": Order(5)}
    assert early(Order(5)) == 5


def test_a_name_that_is_not_there_at_run_time_is_named():
    @app.job()
    def late(amount: Decimal) -> None: ...

    with pytest.raises(InvalidJob) as caught:
        late.request(1)
    assert str(caught.value) == (
        "late: name 'Decimal' is not defined, which an annotation mentions: "
        "define or import it at module level, not under TYPE_CHECKING"
    )
