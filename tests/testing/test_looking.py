"""What a test sees of its jobs."""

from datetime import UTC, timedelta

import pytest

from scheduler import App, AsyncClient, Client, InvalidJob, JobsError, NoGateway
from scheduler.testing import Submitted

app = App("look")


@app.job(queue="email", labels={"team": "a"})
def send(to: str, subject: str = "Hi") -> str:
    return to


@app.job(content_type="image/png")
def thumbnail(image: bytes) -> int:
    return len(image)


@app.job(max_attempts=1)
def fails() -> None:
    raise OSError("no disk")


def test_submitted_shows_everything_that_was_asked_for(jobs):
    plain = send.submit("ann", subject="Hello")
    full = send.options(
        queue="other", tenant="acme", priority="interactive", delay="90s", expires_in="1h", max_attempts=2,
        timeout="20s", idempotency_key="k", labels={"order": "17"},
    ).submit(to="bob")  # fmt: skip
    one, other = jobs.submitted
    assert isinstance(one, Submitted)
    assert (one.ref, one.type, one.arguments) == (plain, "look.send", {"to": "ann", "subject": "Hello"})
    assert (one.queue, one.tenant, one.priority, one.labels) == ("email", "default", "default", {"team": "a"})
    assert (one.delay, one.run_at, one.expires_at, one.idempotency_key) == (timedelta(0), None, None, None)
    assert (one.max_attempts, one.timeout, one.at) == (5, timedelta(minutes=5), jobs.now)
    assert (other.ref, other.queue, other.tenant, other.priority) == (full, "other", "acme", "interactive")
    assert (other.delay, other.run_at) == (timedelta(seconds=90), jobs.now + timedelta(seconds=90))
    assert other.expires_at == jobs.now + timedelta(hours=1) and other.idempotency_key == "k"
    assert (other.max_attempts, other.timeout, other.labels) == (2, timedelta(seconds=20), {"order": "17"})
    assert jobs.now.tzinfo is UTC


def test_numbers_stay_numbers_and_bytes_bytes(jobs):
    thumbnail.options(priority=4).submit(b"\x89PNG")
    (one,) = jobs.submitted
    assert (one.priority, one.arguments, one.payload, one.content_type) == (4, None, b"\x89PNG", "image/png")
    jobs.run()
    assert one.ref.result() == 4


def test_what_is_submitted_is_as_it_was_then(jobs):
    before = jobs.submitted
    send.submit("ann")
    assert before == [] and len(jobs.submitted) == 1


def test_a_receipt_names_the_topic(jobs):
    assert send.submit("ann").receipt == ("jobs.submit.default", 0, 0)
    assert send.options(priority="bulk").submit("ann").receipt == ("jobs.submit.bulk", 0, 0)


def test_a_mistake_is_told_at_submit(jobs):
    with pytest.raises(InvalidJob, match="send: argument 'to' must be str, got int 17"):
        send.submit(17)
    assert jobs.submitted == []


def test_dead_letters_lead_to_their_jobs(jobs):
    good, bad = send.submit("ann"), fails.submit()
    assert jobs.dead_letters == []
    jobs.run()
    (letter,) = jobs.dead_letters
    assert (letter.reason, letter.job, letter.type, letter.attempts) == (
        "attempts_exhausted",
        bad,
        "look.fails",
        1,
    )
    assert letter.error == "OSError: no disk"
    assert letter.job.state == "failed" and good.state == "succeeded"


def test_a_cancel_needs_the_gateway(jobs):
    with pytest.raises(NoGateway, match="not served in memory yet"):
        send.submit("ann").cancel()


def test_a_foreign_ref_is_told_apart(jobs, in_memory):
    with in_memory():
        ref = send.submit("ann")
    ref._inquiries = send.submit("bob")._inquiries
    with pytest.raises(JobsError, match=r"no job '.*' was submitted in this test"):
        _ = ref.state


def test_runs_are_found_by_id_too(jobs):
    ref = send.submit("ann")
    jobs.run()
    assert jobs.runs(ref.id) == jobs.runs(ref) != []
    assert jobs.runs("unknown") == []


def test_a_plain_client_lands_here_whenever_it_was_made(jobs):
    with Client(tenant="acme") as client:
        ref = client.submit("look.send", {"to": "ann"}, queue="q")
        more = client.submit_many(client.request("look.send", {"to": name}) for name in "bc")
    jobs.run()
    assert [one.result() for one in (ref, *more)] == ["ann", "b", "c"]
    assert (jobs.submitted[0].tenant, jobs.submitted[0].queue) == ("acme", "q")


def test_an_async_client_lands_here(jobs):
    import asyncio

    async def submit():
        async with AsyncClient() as client:
            one = await client.submit("look.send", {"to": "ann"})
            return [one, *await client.submit_many([client.request("look.send", {"to": "bob"})])]

    refs = asyncio.run(submit())
    jobs.run()
    assert [ref.result() for ref in refs] == ["ann", "bob"]


def test_a_payload_that_does_not_fit_its_handler_fails_as_in_production(jobs):
    ref = Client().submit("look.send", {"too": "ann"}, max_attempts=1)
    jobs.run()
    assert ref.state == "failed" and "the payload has an argument 'too'" in jobs.runs(ref)[0].error


def test_everything_shows_itself(jobs):
    send.submit("ann")
    assert repr(jobs) == f"<Jobs at {jobs.now.isoformat()}: 1 submitted>"
    assert "type='look.send', arguments={'to': 'ann'}" in repr(jobs.submitted)
