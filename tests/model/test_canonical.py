"""Taking alike states together loses none."""

import pytest

from tests.model.bounds import bounded
from tests.model.canonical import Canonical
from tests.model.model import Model
from tests.model.rules import Rules
from tests.model.search import Exploration
from tests.model.state import Step


@pytest.mark.parametrize("world", ["kills=1 failures=1", "takeovers=1", "aborts=1 decisions=2 inbox=2"])
def test_two_workers_may_change_names(world):
    model = Model(Rules(), bounded(f"workers=2 epochs=1 {world}"))
    alike, apart = Exploration(model), Exploration(model)
    apart._canonical._interchangeable = False
    for explored in (alike, apart):
        for _ in explored.steps():
            pass
    kept = set(alike.states)
    assert len(kept) < 0.7 * len(apart.states)
    canonical = Canonical(model.rules, model.bounds)
    for state in apart.states:
        form, _ = canonical.of(Step("", state))
        assert form in kept or canonical._mirrored(form) in kept
