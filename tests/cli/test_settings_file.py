"""`settings.yaml`: what is taken, what is refused and in which words, what is not kept yet."""

from pathlib import Path

import pytest

from scheduler.cli.settings_file import SettingsError, load_settings, unkept_settings
from scheduler.core import bounds
from scheduler.core.settings import DEFAULT_QUEUE


@pytest.fixture
def given(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "settings.yaml"
        file.write_text(text)
        return file

    return write


def test_without_a_file_every_queue_has_the_defaults():
    assert load_settings(None, "jobs.").queue("any") is DEFAULT_QUEUE
    assert unkept_settings(None) == []


def test_every_setting_is_taken(given):
    file = given(
        "queues:\n"
        "  video: {pool: video, lease: 30s, timeout: 20m, max_payload_bytes: 1000, keep_succeeded: 1d,\n"
        "          keep_cancelled: 2d, keep_failed: 3d, keep_keys: 4d}\n"
    )
    queue = load_settings(file, "jobs.").queue("video")
    assert (queue.pool, queue.lease_ms, queue.timeout_max_ms) == ("video", 30_000, 20 * bounds.MINUTE_MS)
    assert queue.payload_max_bytes == 1_000
    kept = (queue.keep_succeeded_ms, queue.keep_cancelled_ms, queue.keep_failed_ms, queue.keep_keys_ms)
    assert kept == tuple(days * bounds.DAY_MS for days in (1, 2, 3, 4))


def test_emits_of_a_queue_take_nothing_from_the_settings_of_its_pattern(given):
    file = given("queues: {'w/*': {pool: web}}\nemits: {w/a: [out]}")
    settings = load_settings(file, "jobs.")
    assert (settings.queue("w/a").pool, settings.queue("w/a").emits) == ("web", {"out"})
    assert (settings.queue("w/b").pool, settings.queue("w/b").emits) == ("web", frozenset())


def test_emits_of_a_pattern_hold_for_a_queue_that_has_settings_of_its_own(given):
    file = given("queues: {w/a: {pool: web}}\nemits: {'*': [far], 'w/*': [out]}")
    settings = load_settings(file, "jobs.")
    assert (settings.queue("w/a").pool, settings.queue("w/a").emits) == ("web", {"out"})
    assert (settings.queue("x").pool, settings.queue("x").emits) == ("default", {"far"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "must be a mapping of sections, got list"),
        ("queus: {}", "unknown section 'queus'; known are queues, emits"),
        ("queues: [a]", "queues: must be a mapping of names or patterns, got list"),
        ("queues: {a b: {}}", "queues: 'a b' is not a queue name or pattern"),
        ("queues: {1: {}}", "queues: 1 is not a queue name or pattern"),
        ("queues: {a: 1}", "queues.a: must be a mapping, got int"),
        ("queues: {a: {poool: x}}", "queues.a.poool: unknown setting; known are pool, lease"),
        ("queues: {a: {pool: x/y}}", "queues.a.pool: 'x/y' is not a pool name"),
        ("queues: {a: {lease: 5s}}", "queues.a.lease: 5s is not between 10000 ms and 60000 ms"),
        ("queues: {a: {lease: 20}}", "queues.a.lease: "),
        ("queues: {a: {max_payload_bytes: 1e9}}", "queues.a.max_payload_bytes: "),
        ("emits: [a]", "emits: must be a mapping of queues, got list"),
        ("emits: {a: out}", "emits.a: must be a list of topic names"),
        ("emits: {a: [jobs.changelog]}", "emits.a: jobs.changelog is the scheduler's own topic"),
        ("emits: {a: [jobs.leases.web]}", "emits.a: jobs.leases.web is the scheduler's own topic"),
        ("a: [", "while parsing"),
    ],
)
def test_what_is_wrong_is_named(given, text, words):
    with pytest.raises(SettingsError) as raised:
        load_settings(given(text), "jobs.")
    assert words in str(raised.value)


def test_what_is_not_kept_yet_is_told(given):
    file = given(
        "queues: {a: {concurrency: 5, pool: web}, b: {rate: 5/s}, c: }\ntenants: {acme: {weight: 2}}\nbands: {}"
    )
    load_settings(file, "jobs.")
    assert unkept_settings(file) == ["queues.a.concurrency", "queues.b.rate", "tenants", "bands"]
