"""The pages for authors and producers: their blocks run, their facts hold."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.codec.job import encode_job
from scheduler.core import bounds, keys
from scheduler.core.spec import JobSpec

ROOT = Path(__file__).parents[2]
PRODUCING = (ROOT / "docs" / "PRODUCING.md").read_text()
WRITING = (ROOT / "docs" / "WRITING_JOBS.md").read_text()


def blocks(page, language):
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def produced(bootstrap, **replacements):
    """How the example of the page ends, with other words in some places."""
    (script,) = blocks(PRODUCING, "python")
    assert "scheduler" not in script
    for old, new in replacements.items():
        assert old in script
        script = script.replace(old, new)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap},
        check=False,
    )


def test_a_third_party_producer_that_follows_the_page_works(topics):
    done = produced(topics.bootstrap, **{"jobs.submit.default": topics.name("default")})
    assert done.returncode == 0, done.stderr
    (message,) = topics.messages()
    (spec,) = topics.specs()
    assert spec == JobSpec(
        message.key().decode(),
        "billing",
        "email",
        "shop.send_email",
        b'{"to": "ann@example.com", "subject": "Welcome"}',
    )
    assert message.partition() == keys.shard_of(spec.job_id, 8)
    assert done.stdout == f"{spec.job_id} is in {message.topic()}/{message.partition()}@{message.offset()}\n"


def test_a_third_party_producer_hears_in_time_that_no_broker_has_its_record():
    done = produced("127.0.0.1:1", **{'"message.timeout.ms": 30_000': '"message.timeout.ms": 300'})
    assert done.returncode == 1
    assert "not acknowledged, send it again with the same id: KafkaError{code=_MSG_TIMED_OUT" in done.stderr


def test_the_header_of_the_page():
    header = encode_job(JobSpec("a", "b", "c", "d", b""))[:10]
    assert header.hex(" ").upper() in PRODUCING


def test_the_figures_of_the_page():
    assert str(keys.ROOT) in PRODUCING
    assert f"payload {bounds.PAYLOAD_MAX_BYTES // bounds.KIB} KiB" in PRODUCING
    assert f"ids 1 to {bounds.JOB_ID_MAX_CHARS} of" in PRODUCING
    assert f"1 to {bounds.NAME_MAX_CHARS} of the same and" in PRODUCING


@pytest.mark.parametrize("page", [PRODUCING, WRITING])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (ROOT / "docs" / target).exists(), target


def test_the_blocks_for_authors_run():
    script = "\n".join(blocks(WRITING, "python"))
    assert "transcode" in script
    script += (
        "\nassert send_email('a', 'b') == 'sent to a'"
        "\nassert transcode(['x', 'y']) == {'segments': 2}"
        "\nassert sorted(app.jobs) == ['shop.send_email', 'shop.transcode']"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_option_is_told():
    from scheduler.client.options import Options

    table = WRITING[WRITING.index("| option |") : WRITING.index("### Errors")]
    told = set(re.findall(r"`([a-z_]+)`", table))
    assert set(Options.__annotations__) - told - {"on_parent_failure"} == set()


def test_all_of_the_context_is_told():
    from scheduler import Context

    table = WRITING[WRITING.index("## The context") : WRITING.index("## What handlers share")]
    public = {name for name in vars(Context) if not name.startswith("_")} - {"emitted"}
    assert {name for name in public if not re.search(rf"`{name}\b", table)} == set()
