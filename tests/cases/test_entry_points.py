"""What is started is what gets the signals: no shell stays between."""

import pytest

from tests.docs.pages import ROOT

STARTED = [
    path for path in sorted((ROOT / "scripts").iterdir()) if path.name in ("demo", "simulate", "chaos")
]


@pytest.mark.parametrize("script", STARTED, ids=lambda path: path.name)
def test_a_script_ends_by_becoming_what_it_runs(script):
    assert script.read_text().rstrip().splitlines()[-1].startswith("exec .venv/bin/")
