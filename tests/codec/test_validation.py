"""What a job record must look like (cases AV-01, AV-06, AP-06)."""

import msgspec
import pytest

from scheduler.core import bounds, keys
from scheduler.core.digest import digest
from scheduler.core.outputs import Refusal
from scheduler.core.settings import DEFAULT_QUEUE, QueueSettings
from scheduler.core.spec import Backoff, JobSpec
from scheduler.core.validation import FieldError, Refused, check, problems
from tests.codec.golden import FULL, PLAIN


def told(queue: QueueSettings = DEFAULT_QUEUE, /, **fields) -> list[str]:
    return [str(error) for error in problems(msgspec.structs.replace(PLAIN, **fields), queue)]


def test_good_jobs_pass():
    check(PLAIN, DEFAULT_QUEUE)
    check(FULL, DEFAULT_QUEUE)
    check(msgspec.structs.replace(PLAIN, job_id=""), DEFAULT_QUEUE)
    check(msgspec.structs.replace(FULL, job_id=""), DEFAULT_QUEUE)


def test_the_error_names_field_value_and_limit():
    with pytest.raises(Refused) as caught:
        check(msgspec.structs.replace(PLAIN, timeout_ms=86_400_000), DEFAULT_QUEUE)
    refused = caught.value
    assert refused.reason is Refusal.OUT_OF_BOUNDS
    assert refused.detail == "/timeout_ms 86400000 above the limit 3600000"
    error = FieldError("/timeout_ms", "too_large", "86400000 above the limit 3600000", "86400000", "3600000")
    assert refused.errors == (error,)


def test_a_queue_may_allow_more_or_less():
    assert told(QueueSettings(timeout_max_ms=bounds.DAY_MS), timeout_ms=bounds.DAY_MS) == []
    assert told(QueueSettings(timeout_max_ms=1_000), timeout_ms=1_001) == [
        "/timeout_ms 1001 above the limit 1000"
    ]
    assert told(QueueSettings(payload_max_bytes=3), payload=b"1234") == ["/payload 4 bytes above the limit 3"]


def test_all_faults_are_told_at_once():
    assert len(told(priority=10, max_attempts=0, run_at_ms=-1, content_type="", labels={"": ""})) == 5


@pytest.mark.parametrize(
    ("name", "ok"),
    [
        *[
            ("a", True),
            ("a" * 128, True),
            ("A-Z.0_9:x/y", True),
            ("__proto__", True),
            ("..", True),
            ("a/b", True),
        ],
        *[
            ("", False),
            ("a" * 129, False),
            ("a" * 10_000, False),
            ("a\0b", False),
            ("a b", False),
            ("a\nb", False),
        ],
        *[
            ("a\n", False),
            ("café", False),
            ("cafe\u0301", False),
            ("\u202eabc", False),
            ("\u0430", False),
            ("\ud800", False),
        ],
        *[(None, False), (7, False), (b"a", False), (["a"], False), (True, False)],
    ],
)
@pytest.mark.parametrize("field", ["tenant", "queue", "type"])
def test_names(field, name, ok):
    errors = told(**{field: name})
    assert (errors == []) is ok
    assert ok or errors[0].startswith(f"/{field} ")


@pytest.mark.parametrize(
    ("job_id", "ok"),
    [
        ("a", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("a/b", False),
        ("a\n", False),
        ("é", False),
        (7, False),
    ],
)
def test_ids(job_id, ok):
    assert (told(job_id=job_id) == []) is ok
    assert (told(after=(job_id,)) == []) is ok


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("priority", 0, 9),
        ("run_at_ms", 0, 253_402_300_799_999),
        ("expires_at_ms", 0, 253_402_300_799_999),
        ("max_attempts", 1, 1_000),
        ("timeout_ms", 100, 3_600_000),
    ],
)
def test_numbers(field, low, high):
    for good in (low, high):
        assert told(**{field: good}) == []
    for bad in (low - 1, high + 1, 2**31 + high, 2**63, 10**300, True, 1.9, 1e3, float("nan"), "1", None):
        (error,) = told(**{field: bad})
        assert error.startswith(f"/{field} "), error
        assert len(error) < 120


@pytest.mark.parametrize(
    ("backoff", "field"),
    [
        (Backoff(base_ms=0), "/backoff/base_ms"),
        (Backoff(max_ms=8 * bounds.DAY_MS), "/backoff/max_ms"),
        (Backoff(factor=0.5), "/backoff/factor"),
        (Backoff(factor=100.5), "/backoff/factor"),
        (Backoff(factor=float("nan")), "/backoff/factor"),
        (Backoff(factor=float("inf")), "/backoff/factor"),
        (Backoff(factor=10**400), "/backoff/factor"),
        (Backoff(factor=True), "/backoff/factor"),
        (Backoff(factor="2"), "/backoff/factor"),
        (Backoff(base_ms=1.5), "/backoff/base_ms"),
        ({"base_ms": 1}, "/backoff"),
    ],
)
def test_backoff(backoff, field):
    (error,) = told(backoff=backoff)
    assert error.startswith(f"{field} ")


def test_parents():
    assert told(after=tuple(f"p{n}" for n in range(100))) == []
    assert told(after=tuple(f"p{n}" for n in range(101))) == ["/after 101 parents above the limit 100"]
    assert told(after=(PLAIN.job_id,)) == ["/after/0 a job can't wait for itself"]
    assert told(after="abc") == ["/after must be a tuple of ids, got str"]


def test_labels():
    assert told(labels={f"é{n}": "x" * 64 for n in range(16)}) == []
    assert told(labels={str(n): "" for n in range(17)}) == ["/labels 17 labels above the limit 16"]
    assert told(labels={"a": "é" * 33}) == ["/labels 66 bytes of a value above the limit 64"]
    assert told(labels={"a" * 65: ""}) == ["/labels 65 bytes of a name above the limit 64"]
    assert told(labels={"a": "\ud800"}) == ["/labels a value is not valid Unicode text"]
    assert told(labels={"a": 1}) == ["/labels must be text in each value, got int"]


def test_a_key_decides_the_id():
    good = keys.id_from_key("shop", "k")
    assert told(job_id=good, idempotency_key="k") == []
    assert told(job_id="", idempotency_key="k") == []
    (error,) = told(idempotency_key="k")
    assert error.startswith("/job_id is not the id")
    assert told(job_id="", idempotency_key="") == ["/idempotency_key must not be empty"]
    assert told(job_id="", idempotency_key="é" * 129) == ["/idempotency_key 258 bytes above the limit 256"]
    assert told(job_id="", idempotency_key=7) == ["/idempotency_key must be text, got int"]


def test_keys_are_compared_as_bytes():
    """The composed and the decomposed form of one word are two keys; nothing is normalised."""
    assert keys.id_from_key("shop", "caf\u00e9") != keys.id_from_key("shop", "cafe\u0301")


def test_texts_are_not_told():
    assert not any(
        "SECRET" in error
        for error in told(tenant="SECRET stuff", labels={"x": "SECRET" * 20}, queue="SECRET!")
    )


SPEC = JobSpec("a", "t", "q", "kind", b"payload", content_type="ct", after=("p", "q"))


@pytest.mark.parametrize(
    "change",
    [
        {"type": "kin"},
        {"payload": b"dpayload"},
        {"content_type": "ctp"},
        {"after": ("q", "p")},
        {"after": ("pq",)},
        {"after": ()},
        {"type": "kindc", "content_type": "t"},
        {"content_type": "ctpay", "payload": b"load"},
        {"payload": b"payloadp", "after": ("q",)},
        {"after": ("p,q",)},
    ],
)
def test_other_content_has_another_digest(change):
    assert digest(msgspec.structs.replace(SPEC, **change)) != digest(SPEC)


def test_times_and_the_like_are_no_content():
    retried = msgspec.structs.replace(
        SPEC,
        job_id="b",
        priority=9,
        run_at_ms=5,
        expires_at_ms=9,
        labels={"a": "b"},
        max_attempts=9,
        queue="r",
    )
    assert digest(retried) == digest(SPEC)


def test_the_digest_never_changes():
    """It lies in every state record."""
    assert digest(SPEC).hex() == "290b4bae4dfe084a8f434e37490af052"
