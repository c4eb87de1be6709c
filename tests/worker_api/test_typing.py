"""mypy --strict and pyright on the example of the README: users must find it right, and mistakes must be found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = HERE / "readme_example.py"
MISTAKES = HERE / "readme_mistakes.py"
ERROR = re.compile(r"^(?P<file>.+?\.py):(?P<line>[0-9]+): error: (?P<text>.*)$", re.MULTILINE)


def mypy(file, folder):
    config = folder / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\n")
    environment = {**os.environ, "MYPYPATH": str(HERE / "stubs")}
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "mypy",
                "--config-file",
                str(config),
                "--cache-dir",
                str(folder / "cache"),
            ),
            *(
                "--explicit-package-bases",
                "--hide-error-context",
                "--no-error-summary",
                "--follow-imports=silent",
            ),
            *("--ignore-missing-imports", str(file)),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    assert done.stderr == ""
    return {
        (Path(found["file"]).name, int(found["line"])): found["text"] for found in ERROR.finditer(done.stdout)
    }


def pyright(file, folder):
    config = folder / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "include": [os.path.relpath(file, folder)],  # an absolute path is ignored
                "extraPaths": [str(ROOT)],
                "stubPath": str(HERE / "stubs"),
                "typeCheckingMode": "standard",
                "pythonVersion": "3.11",
            },
        ),
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson", "--project", str(config)),
            *("--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        check=False,
    )
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] == 1
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"]
        for one in answer["generalDiagnostics"]
        if one["severity"] == "error"
    }


def marked(file):
    lines = file.read_text().splitlines()
    return {(file.name, number) for number, line in enumerate(lines, start=1) if line.endswith("# mistake")}


@pytest.mark.slow
@pytest.mark.timeout(300)
class TestMypy:
    def test_finds_nothing_in_the_example(self, tmp_path):
        assert mypy(EXAMPLE, tmp_path) == {}

    def test_finds_each_mistake_and_nothing_else(self, tmp_path):
        found = mypy(MISTAKES, tmp_path)
        assert found.keys() == marked(MISTAKES), found


@pytest.mark.slow
@pytest.mark.timeout(300)
class TestPyright:
    def test_finds_nothing_in_the_example(self, tmp_path):
        assert pyright(EXAMPLE, tmp_path) == {}

    def test_finds_each_mistake_and_nothing_else(self, tmp_path):
        found = pyright(MISTAKES, tmp_path)
        assert found.keys() == marked(MISTAKES), found
