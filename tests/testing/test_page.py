"""The page for users is true: its blocks run as they stand."""

import re

from tests.testing.child import ROOT, run_tests

PAGE = ROOT / "docs" / "TESTING.md"
BLOCK = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


def test_the_blocks_of_the_page_pass(tmp_path):
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    assert blocks.keys() == {"jobs.py", "test_jobs.py"}
    for name, text in blocks.items():
        (tmp_path / name).write_text(text)
    done = run_tests(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
