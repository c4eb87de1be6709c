"""Each rule of the model is one of the design and of the code, and each is searched for."""

import re

import pytest

from tests.docs.pages import DESIGN, ROOT
from tests.docs.test_design import defined
from tests.model import runs
from tests.model.rules import NAMES, RULES, Rules

HEADINGS = re.findall(r"^##+ (.+)$", DESIGN.read_text(), re.MULTILINE)
BY_NAME = {"argvalues": RULES, "ids": NAMES}


@pytest.mark.parametrize("rule", **BY_NAME)
def test_it_stands_in_the_design(rule):
    assert rule.section in HEADINGS


@pytest.mark.parametrize("rule", **BY_NAME)
def test_it_stands_in_the_code(rule):
    for place in rule.places:
        path, _, names = place.partition(": ")
        assert set(names.split(", ")) <= defined(ROOT / "scheduler" / path), place


def test_names_are_unique():
    assert len(set(NAMES)) == len(NAMES)


def test_each_is_either_needed_or_kept_for_a_reason():
    needed = [run.off[0] for run in runs.BROKEN]
    harmless = [run.off[0] for run in runs.HARMLESS]
    assert sorted(needed + harmless) == sorted(NAMES)
    assert sorted(harmless) == sorted(rule.name for rule in RULES if rule.kept_for)


def test_a_pair_begins_with_a_rule_that_is_harmless_by_itself():
    assert {run.off[0] for run in runs.PAIRS} <= {run.off[0] for run in runs.HARMLESS}


def test_a_rule_that_does_not_exist_can_not_be_off():
    with pytest.raises(ValueError, match="no such rule: nonsense"):
        Rules(["nonsense"])
