"""A simulation that finds no bug proves nothing: it must find each of these."""

import pytest

from tests.simulation.seeds import first_red
from tests.simulation.variants import VARIANTS


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_variant_is_found(name):
    assert first_red(name) is not None, f"{name} stays green: {VARIANTS[name].why}"
