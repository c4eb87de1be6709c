"""The parts of docs/DESIGN.md that follow from the code.

    python -m tests.docs.generated        writes them anew

Each stands between two comments, `<!-- generated: NAME -->` and `<!-- end of NAME -->`. A test compares.
"""

import ast
import inspect
import re

import msgspec

from scheduler.core.job import ENDED, MOVES, STATUS, Phase
from scheduler.core.timing import Timing
from scheduler.dispatcher.config import Config
from tests.docs.pages import DESIGN, ROOT

PACKAGES = (
    *("core", "codec", "storage", "kafka", "dispatcher", "worker", "client", "testing", "bench", "observe"),
    *("devkafka", "cli"),
)
"""In the order of the file map: what depends on little first."""

SAID = {
    "turn_records": "records that a turn takes at most",
    "turn_bytes": "bytes that a poll returns at most",
    "turn_decide_ms": "a turn takes no more records after this long",
    "restore_slice_ms": "reading changelogs back, between turns",
    "housekeeping_every_ms": "keep times, overlong runs, missed retries",
    "delete_every_ms": "consumed records are deleted this often",
}
"""Of fields without a comment in the code."""

NO_DOCSTRING = {
    "core/ruff.toml": "bans clock, chance and I/O in the core by name",
    "py.typed": "says that the package is typed",
}


def job_diagram():
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {phase} --> {to}" for phase in Phase for to in Phase if to in MOVES[phase]]
    return "\n".join([*lines, "```"])


def job_table():
    lines = ["| state | plain word | may become |", "| --- | --- | --- |"]
    for phase in Phase:
        ended = ", ended" if phase in ENDED else ""
        moves = " ".join(f"`{to}`" for to in Phase if to in MOVES[phase]) or "nothing"
        lines.append(f"| `{phase}` | {STATUS[phase]}{ended} | {moves} |")
    return "\n".join(lines)


def timing_table():
    return _constants(Timing)


def turn_table():
    return _constants(Config)


def file_map():
    parts = []
    for package in ("", *PACKAGES):
        files = sorted(_files(package), key=lambda path: (path.count("/"), path))
        lines = [f"### `scheduler/{package}`", "", "| file | what it is for |", "| --- | --- |"]
        if package:
            lines[1:1] = ["", _purpose(f"{package}/__init__.py")]
            files.remove(f"{package}/__init__.py")
        lines += [f"| `{path}` | {_purpose(path)} |" for path in files]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def all_files():
    """Every file of the package, by path below `scheduler/`."""
    package = ROOT / "scheduler"
    found = (path.relative_to(package) for path in package.rglob("*") if path.is_file())
    return {
        str(path) for path in found if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }


def _files(package):
    return [path for path in all_files() if (path.partition("/")[0] if "/" in path else "") == package]


def _purpose(path):
    if path in NO_DOCSTRING:
        return NO_DOCSTRING[path]
    doc = ast.get_docstring(ast.parse((ROOT / "scheduler" / path).read_text())) or ""
    first = " ".join(doc.split("\n\n")[0].split()).replace("``", "`").rstrip(".")
    return first.replace("|", "\\|")


def _constants(struct):
    """The fields of a struct that have a number for default, with the comments beside them."""
    comments = dict(
        re.findall(r"^    (\w+): int = [^#\n]+?(?:  # (.+))?$", inspect.getsource(struct), re.MULTILINE)
    )
    values = {field.name: field.default for field in msgspec.structs.fields(struct)}
    lines = [f"| `{struct.__name__}` | value | |", "| --- | ---: | --- |"]
    lines += [
        f"| `{name}` | {values[name]:,} | {comment or SAID[name]} |" for name, comment in comments.items()
    ]
    return "\n".join(lines)


BLOCKS = {
    "job diagram": job_diagram,
    "job table": job_table,
    "timing": timing_table,
    "turn": turn_table,
    "file map": file_map,
}


def _place(name):
    return re.compile(rf"(<!-- generated: {name} -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def block(text, name):
    """What a document has in a generated place."""
    found = _place(name).search(text)
    assert found, f"no place for '{name}'"
    return found[2].rstrip("\n")


def render(text):
    """The document with every generated place written anew."""
    for name, make in BLOCKS.items():
        made = make()
        text = _place(name).sub(lambda found, made=made: f"{found[1]}{made}\n{found[3]}", text)
    return text


if __name__ == "__main__":
    DESIGN.write_text(render(DESIGN.read_text()))
