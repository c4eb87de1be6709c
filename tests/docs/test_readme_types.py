"""mypy --strict and pyright find nothing in what the README has one paste."""

import pytest

from tests.docs.pages import README, blocks
from tests.worker_api.test_typing import mypy, pyright

JOBS, SUBMIT = blocks(README.read_text(), "python")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_the_jobs_and_the_submits_are_typed(checker, tmp_path):
    pasted = tmp_path / "jobs.py"
    pasted.write_text(JOBS + SUBMIT.replace("from jobs import send_email\n", ""))
    assert checker(pasted, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_wrong_argument_would_be_found(checker, tmp_path):
    pasted = tmp_path / "jobs.py"
    pasted.write_text(f'{JOBS}send_email.submit(to=17, subject="Welcome")\n')
    assert list(checker(pasted, tmp_path)) == [("jobs.py", len(JOBS.splitlines()) + 1)]
