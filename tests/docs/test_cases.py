"""docs/CASES.md and docs/RELIABILITY.md name what is there, and every case has its row."""

import re

import pytest

from tests.docs.named import TEST, missing_places, missing_tests
from tests.docs.pages import DESIGN, ROOT, rows, sections

CASES = (ROOT / "docs" / "CASES.md").read_text()
RELIABILITY = (ROOT / "docs" / "RELIABILITY.md").read_text()
ID = re.compile(r"[A-Z]{2}-\d\d")
PAGES = {"cases": CASES, "reliability": RELIABILITY}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_test_that_a_page_names_is_collected(page):
    assert len(TEST.findall(page)) > 30
    assert missing_tests(page) == []


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_place_that_a_page_names_exists(page):
    assert missing_places(page) == []


def test_what_is_not_there_would_be_noticed():
    page = "`core/leases.py: Leases.no_such`, `core/no_such.py`, `core/test_leases.py::test_no_such`"
    assert missing_places(page) == ["core/leases.py: Leases.no_such", "core/no_such.py"]
    assert missing_tests(page) == ["tests/core/test_leases.py::test_no_such"]


LISTED = {
    name: ID.findall(re.search(r"^Ids: (.+?)\n\n", text, re.MULTILINE | re.DOTALL)[1])
    for name, text in sections(CASES).items()
}
TOLD = {name: [row for row in rows(text) if ID.fullmatch(row[0])] for name, text in sections(CASES).items()}


@pytest.mark.parametrize("section", LISTED)
def test_every_case_that_is_listed_has_one_row_in_that_order(section):
    assert [row[0] for row in TOLD[section]] == LISTED[section]


def test_the_lists_are_whole():
    assert {name: len(ids) for name, ids in LISTED.items()} == {"Leases": 30, "Kafka and state": 23}


@pytest.mark.parametrize("row", [row for told in TOLD.values() for row in told], ids=lambda row: row[0])
def test_a_row_is_whole_and_names_a_test(row):
    assert len(row) == 4
    assert all(row)
    assert TEST.search(row[3])


def test_every_promise_of_the_design_is_told_of():
    promises = [row[0] for row in rows(sections(DESIGN.read_text())["1. What it is, and what it promises"])]
    assert promises[0] == "promise"
    told = sections(RELIABILITY)
    assert [f"{promise[0].upper()}{promise[1:]}" for promise in promises[1:]] == [
        name for name in told if name != "Limits"
    ]
    for name, text in told.items():
        assert name == "Limits" or TEST.search(text), name
