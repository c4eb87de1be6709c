"""Options: nothing is guessed, nothing is dropped, and a message names the field, the limit and the value."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.client.client import request_for
from scheduler.client.errors import InvalidJob
from scheduler.client.options import Options
from scheduler.core.spec import Backoff, Band, JobSpec, OnParentFailure


def request(payload=None, **options):
    return request_for("acme", "shop.greet", payload, options)


def refusal(**options):
    with pytest.raises(InvalidJob) as caught:
        request(**options)
    return str(caught.value)


def test_what_is_left_out_has_the_usual_value():
    spec = request().spec
    assert spec == JobSpec(spec.job_id, "acme", "default", "shop.greet", b"{}")
    assert spec.max_attempts == 5
    assert spec.timeout_ms == 300_000


def test_every_option_arrives():
    made = request(
        {"a": 1},
        queue="email/eu",
        tenant="other",
        priority="bulk",
        run_at=datetime(2027, 1, 1, tzinfo=UTC),
        max_attempts=7,
        timeout="90s",
        backoff={"base": "1s", "factor": 3, "max": timedelta(minutes=1)},
        job_id="order-17",
        labels={"order": "17"},
        after=[],
        on_parent_failure="run",
    )
    assert made.band is Band.BULK
    assert made.spec == JobSpec(
        "order-17",
        "other",
        "email/eu",
        "shop.greet",
        b'{"a":1}',
        priority=7,
        run_at_ms=1_798_761_600_000,
        max_attempts=7,
        timeout_ms=90_000,
        backoff=Backoff(1_000, 3.0, 60_000),
        on_parent_failure=OnParentFailure.RUN,
        labels={"order": "17"},
    )


def test_delay_and_expiry_count_from_now():
    spec = request(delay="1h", expires_in="1d").spec
    assert spec.expires_at_ms - spec.run_at_ms == pytest.approx(23 * 3_600_000, abs=1_000)


@pytest.mark.parametrize("option", sorted(Options.__annotations__))
def test_a_typo_in_any_option_is_refused_with_the_right_name(option):
    typo = option[:2] + option[3] + option[2] + option[4:]
    assert refusal(**{typo: "x"}) == f"shop.greet: unknown option {typo!r}: did you mean {option!r}?"


def test_the_example_of_the_page():
    assert refusal(prioirty="bulk") == "shop.greet: unknown option 'prioirty': did you mean 'priority'?"


@pytest.mark.parametrize(
    ("given", "number", "band"),
    [
        ("interactive", 0, Band.INTERACTIVE),
        ("default", 3, Band.DEFAULT),
        ("bulk", 7, Band.BULK),
        (0, 0, Band.INTERACTIVE),
        (1, 1, Band.DEFAULT),
        (4, 4, Band.DEFAULT),
        (5, 5, Band.BULK),
        (9, 9, Band.BULK),
    ],
)
def test_priorities(given, number, band):
    made = request(priority=given)
    assert (made.spec.priority, made.band) == (number, band)


@pytest.mark.parametrize("wrong", ["high", "", -1, 10, 1.0, True, None, "3", float("nan")])
def test_other_priorities_are_refused(wrong):
    assert "is not 'interactive', 'default', 'bulk' or an integer 0 to 9" in refusal(priority=wrong)


NUMBERS = [2**31, -(2**31) - 1, 2**63 - 1, 2**63, True, 1.9, float("nan"), "1", None]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_out_of_range_or_of_another_kind(number):
    assert refusal(max_attempts=number).startswith("shop.greet: max_attempts: ")


@pytest.mark.parametrize("number", [1, 1_000])
def test_bounds_of_attempts(number):
    assert request(max_attempts=number).spec.max_attempts == number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts: 0 below the limit 1"),
        ({"max_attempts": 1_001}, "max_attempts: 1001 above the limit 1000"),
        ({"timeout": "25h"}, "timeout: 90000000 above the limit 86400000"),
        ({"timeout": "99ms"}, "timeout: 99 below the limit 100"),
        ({"timeout": 30}, "timeout: 30 has no unit: write '30s', or give a timedelta"),
        ({"delay": "5s", "run_at": datetime.now(UTC)}, "delay and run_at exclude each other"),
        (
            {"run_at": datetime(2027, 1, 1, tzinfo=UTC).replace(tzinfo=None)},
            "run_at: 2027-01-01T00:00:00 has no time zone",
        ),
        ({"run_at": 1_798_761_600.5}, "run_at: 1798761600.5 is not a time"),
        ({"backoff": {"bse": "5s"}}, "backoff: unknown field 'bse': did you mean 'base'?"),
        ({"backoff": "5s"}, "backoff: '5s' is not a mapping"),
        ({"backoff": {"factor": float("nan")}}, "backoff: factor nan is not a number"),
        ({"backoff": {"factor": 0.5}}, "backoff/factor: 0.5 below the limit 1"),
        ({"labels": {"a": 1}}, "labels: 1 is not a string"),
        ({"labels": {str(n): "" for n in range(17)}}, "labels: 17 labels above the limit 16"),
        ({"labels": {"a": "x" * 65}}, "labels: 65 bytes of a value above the limit 64"),
        ({"queue": b"email"}, "queue: b'email' is not a string"),
        ({"after": ["some-id"]}, "after: dependencies are not available in this version"),
        ({"on_parent_failure": "panic"}, "on_parent_failure: 'panic' is not a valid OnParentFailure"),
        ({"idempotency_key": ""}, "idempotency_key: must not be empty"),
        ({"idempotency_key": "é" * 129}, "idempotency_key: 258 bytes above the limit 256"),
        ({"job_id": "my-id", "idempotency_key": "k"}, "job_id: with this idempotency_key it can only be '"),
        ({"delay": "300000000h"}, "is not a duration between"),
        ({"expires_in": "80000000h"}, "expires_in: "),
    ],
)
def test_messages(options, message):
    assert message in refusal(**options)


HOSTILE = [
    *("", "x" * 10_000, "a\x00b", "a\nb", "\u202eabc", "caf\u00e9", "cafe\u0301", "a b", "\ud800", "x" * 129),
]


@pytest.mark.parametrize("option", ["job_id", "queue", "tenant"])
@pytest.mark.parametrize("text", HOSTILE)
def test_names_keep_to_their_letters(option, text):
    message = refusal(**{option: text})
    assert message.startswith(f"shop.greet: {option}: ")
    assert len(message) < 200


@pytest.mark.parametrize("text", [text for text in HOSTILE if text != "\ud800"])
def test_so_do_types(text):
    with pytest.raises(InvalidJob, match="type: "):
        request_for("acme", text, None, {})


@pytest.mark.parametrize("text", ["a", "..", "__proto__", "A-Z.a_z:0", "x" * 64])
def test_odd_names_that_are_fine(text):
    assert request(job_id=text, queue=text, tenant=text).spec.job_id == text


def test_a_slash_is_for_queues_not_for_ids():
    assert request(queue="webhooks/example.com").spec.queue == "webhooks/example.com"
    assert "job_id" in refusal(job_id="a/b")
