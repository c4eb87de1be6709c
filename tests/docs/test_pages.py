"""All pages: links lead somewhere, commands are there, nothing of one machine stands in them."""

import re
import shlex

import pytest

from scheduler.cli.main import run
from scheduler.cli.settings_file import load_settings
from scheduler.core import bounds
from scheduler.worker.app import App
from tests.docs.pages import DESIGN, PAGES, README, ROOT, blocks, commands, without_blocks

PLACEHOLDERS = {"NAME"}
BY_NAME = {"argvalues": PAGES, "ids": lambda page: page.name}


@pytest.mark.parametrize("page", **BY_NAME)
def test_links_lead_to_files_and_headings(page):
    text = without_blocks(page.read_text())
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def anchors(page):
    """The anchors that a page's headings get: lower case, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named_commands():
    """Every `scheduler ...` that a page names, in console blocks and in running text."""
    for page in PAGES:
        text = page.read_text()
        spans = re.findall(r"`(scheduler [^`]+)`", without_blocks(text))
        for command in sorted({*spans, *(c for c in commands(text) if c.startswith("scheduler "))}):
            yield pytest.param(command, id=f"{page.stem}: {command}")


@pytest.mark.parametrize("command", list(named_commands()))
def test_a_command_and_its_options_exist(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [argument for argument in shlex.split(command)[1:] if argument not in PLACEHOLDERS]
    assert run([*arguments, "--help"]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: scheduler {arguments[0]}")


def test_commands_are_found_on_the_pages():
    found = [parameter.values[0] for parameter in named_commands()]
    assert "scheduler dev jobs:app" in found
    assert len(found) > 15


@pytest.mark.parametrize("command", ["scheduler no-such-thing", "scheduler dispatcher --no-such-option"])
def test_a_command_that_does_not_exist_would_be_noticed(command, capsys):
    assert run([*command.split()[1:], "--help"]) != 0
    assert "no" in capsys.readouterr().err


@pytest.mark.parametrize("page", **BY_NAME)
def test_scripts_and_files_of_the_repository_exist(page):
    text = page.read_text()
    named = {command.split()[0] for command in commands(text) if command.startswith("./")}
    named |= set(re.findall(r"`(\./[\w./]+)`", text))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", **BY_NAME)
def test_nothing_of_one_machine_or_network_stands_in_a_page(page):
    text = page.read_text()
    assert re.findall(r"(?<![\w.])/(?:work|home|root|tmp|Users)/", text) == []
    assert (
        re.findall(
            r"(?:https?://)?[\w.-]*(?:pypi\.org|pythonhosted|maven\.org|apache\.org/dist)[\w./-]*", text
        )
        == []
    )


def test_the_variables_that_pages_name_are_read_somewhere():
    named = set()
    for page in (README, DESIGN):
        named |= set(re.findall(r"\bJOBS_[A-Z_]+\b", page.read_text()))
    code = "\n".join(file.read_text() for file in (ROOT / "scheduler").rglob("*.py"))
    assert named
    assert [name for name in named if f'"{name}"' not in code] == []


def test_the_message_of_the_readme_is_the_one_that_people_get(readme_jobs):
    (line,) = [
        line
        for block in blocks(README.read_text(), "")
        for line in block.splitlines()
        if "InvalidJob" in line
    ]
    with pytest.raises(Exception, match="argument") as raised:
        readme_jobs["send_email"].submit(to=17, subject="Welcome")
    assert f"{type(raised.value).__name__}: {raised.value}" == line


def test_the_settings_of_the_readme_are_accepted(tmp_path):
    (given,) = blocks(README.read_text(), "yaml")
    file = tmp_path / "settings.yaml"
    file.write_text(given)
    settings = load_settings(file, "jobs.")
    assert settings.pools() == {"default", "web"}
    assert settings.queue("webhooks/ann").timeout_max_ms == 10 * bounds.SECOND_MS
    assert settings.queue("video").emits == {"video-ready"}


def test_the_failpoints_of_the_design_are_those_of_the_code():
    paragraph = DESIGN.read_text().partition("**Killed on purpose**")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", paragraph))
    files = ("dispatcher/commit.py", "dispatcher/engine.py", "dispatcher/take_over.py", "cli/failpoints.py")
    code = "".join((ROOT / "scheduler" / file).read_text() for file in files)
    assert named == set(re.findall(r"failpoint\(\"([a-z_]+)\"\)", code))


@pytest.fixture
def readme_jobs():
    """The names of the README's jobs.py."""
    code = blocks(README.read_text(), "python")[0]
    names = {"__name__": "jobs"}
    exec(compile(code, "jobs.py", "exec"), names)
    assert isinstance(names["app"], App)
    return names
