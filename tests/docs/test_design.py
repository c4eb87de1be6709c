"""docs/DESIGN.md says what the code does: tables, places, topics, keys."""

import ast
import re

import pytest

from scheduler.core import keyspace
from scheduler.core.bounds import DAY_MS, MINUTE_MS
from scheduler.kafka.layout import Layout
from tests.docs import generated
from tests.docs.pages import DESIGN, ROOT, rows, sections

TEXT = DESIGN.read_text()
SECTIONS = sections(TEXT)
AGAIN = "run: python -m tests.docs.generated"

PLACE = re.compile(r"`((?:[a-z_]+/)+[a-z0-9_]+\.py): ([^`]+)`")
FILE = re.compile(r"`((?:[a-z_]+/)+[a-z0-9_]+\.py)`")
SHARDS = 8


@pytest.mark.parametrize("name", [name for name in generated.BLOCKS if name != "file map"])
def test_the_generated_parts_are_as_the_code_has_them(name):
    assert generated.block(TEXT, name) == generated.BLOCKS[name](), AGAIN


def test_the_file_map_names_every_file_of_the_package_and_no_other():
    named = [row[0].strip("`") for row in rows(generated.block(TEXT, "file map")) if row[0].startswith("`")]
    packages = {
        path for path in generated.all_files() if path.endswith("/__init__.py") and path.count("/") == 1
    }
    assert sorted(named) == sorted(generated.all_files() - packages), AGAIN
    for package in packages:
        assert f"### `scheduler/{package.partition('/')[0]}`" in SECTIONS["15. File map"], AGAIN


def test_every_place_in_the_code_exists():
    places = [(path, name) for path, names in PLACE.findall(TEXT) for name in names.split(", ")]
    assert len(places) > 100
    missing = [f"{path}: {name}" for path, name in places if name not in defined(ROOT / "scheduler" / path)]
    assert missing == []


def test_every_file_exists():
    assert [path for path in FILE.findall(TEXT) if not (ROOT / "scheduler" / path).exists()] == []


def defined(file):
    """Functions, classes, constants of a module, and `Class.member` for what its classes hold."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        names |= set(names_of(node))
        if isinstance(node, ast.ClassDef):
            members = [*node.body, *attributes(node)]
            names |= {f"{node.name}.{name}" for member in members for name in names_of(member)}
    return names


def attributes(of):
    return [
        node
        for function in of.body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]


def names_of(node):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [
        target.id if isinstance(target, ast.Name) else getattr(target, "attr", None) for target in targets
    ]
    return [name for name in names if name]


def test_what_the_code_cites_is_there():
    cited = {
        number
        for file in (*(ROOT / "scheduler").rglob("*.py"), *(ROOT / "tests").rglob("*.py"))
        for number in re.findall(r"docs/DESIGN\.md, section (\d+)", file.read_text())
    }
    assert {"3", "5", "7"} <= cited
    assert [number for number in cited if not any(name.startswith(f"{number}. ") for name in SECTIONS)] == []


# -- topics --------------------------------------------------------------------------------------------


TOPICS = Layout(SHARDS, {"default": 64}).topics()
TOPIC_ROWS = {name: row for row in rows(SECTIONS["2. Topics"]) for name in re.findall(r"`([^`]+)`", row[0])}


def test_the_table_of_topics_has_every_topic_and_no_other():
    assert set(TOPIC_ROWS) == {shown(topic) for topic in TOPICS}


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_is_as_the_table_has_it(topic):
    _, partitions, kept, *_ = TOPIC_ROWS[shown(topic)]
    assert {"S": str(SHARDS), "64 unless set": "64"}.get(partitions, partitions) == str(topic.partitions)
    assert kept == kept_for(topic.configs)


def shown(topic):
    return "leases.<pool>" if topic.name.startswith("leases.") else topic.name


def kept_for(configs):
    if configs["cleanup.policy"] == "compact":
        return "compacted"
    kept_ms = int(configs["retention.ms"])
    if kept_ms == -1:
        return "until consumed"
    return f"{kept_ms // DAY_MS} d" if kept_ms % DAY_MS == 0 else f"{kept_ms // MINUTE_MS} min"


# -- keys ----------------------------------------------------------------------------------------------


def test_the_tables_of_keys_have_every_prefix_of_the_keyspace():
    prefixes = {
        value.decode()
        for name, value in vars(keyspace).items()
        if name.isupper() and isinstance(value, bytes)
    }
    told = {
        match[1]
        for row in rows(SECTIONS["6. State and store"])
        if (match := re.match(r"`([a-z])`", row[0])) is not None
    }
    assert told == prefixes
