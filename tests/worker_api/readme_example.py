"""The worker API as its page shows it. Type-checked by test_typing.py, never run: httpx and shop are stubs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_type

import httpx
from shop import InvalidAddress, build_report, encode, owner, probe, smtp, users, warehouse

from scheduler import App, Context, Fail, JobRef, Message, Retry, Snooze

app = App("shop")


@app.lifespan
@asynccontextmanager
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=8) as client:
        yield client


@app.job(queue="email", max_attempts=5, timeout="30s", give_up_on=(InvalidAddress,))
def send_email(to: str, subject: str, body: str = "") -> str:
    return smtp.send(to, subject, body)


@app.job(queue="webhooks", timeout="10s", max_attempts=12)
async def deliver(ctx: Context, url: str, event: dict[str, str]) -> int:
    r = await ctx.get(httpx.AsyncClient).post(url, json=event, headers={"Idempotency-Key": ctx.job_id})
    if r.status_code == 429:
        raise Retry(after=r.headers.get("Retry-After", "30s"))
    if r.status_code in (404, 410):
        raise Fail(f"endpoint answered {r.status_code}")
    r.raise_for_status()
    return r.status_code


@app.job(queue="video", timeout="20m", memory="4GB")
def transcode(ctx: Context, video_id: str) -> dict[str, int]:
    segments = probe(video_id)
    for n in range(ctx.checkpoint or 0, len(segments)):
        ctx.check()
        encode(segments[n], fence=ctx.epoch)
        ctx.save(n + 1)
        ctx.progress((n + 1) / len(segments), f"segment {n + 1}")
    ctx.emit(send_email.request(to=owner(video_id), subject="Your video is ready"))
    ctx.emit(Message("video-ready", key=video_id, value=b"..."))
    return {"segments": len(segments)}


@app.job(queue="reports", cron="0 2 * * *", tz="Europe/Berlin")
def nightly(ctx: Context) -> None:
    if not warehouse.ready(ctx.nominal_time):
        raise Snooze("10m")
    build_report(ctx.nominal_time)


@app.job()
def returns_outcomes(number: int) -> int | Retry | Snooze:
    return Retry("5s") if number else number


@app.job()
async def returns_outcomes_later(ctx: Context, number: int) -> str | Fail:
    return Fail("no") if number else ctx.job_id


async def anywhere(url: str, event: dict[str, str], host: str, event_id: str) -> None:
    ref = send_email.submit(to="ann@example.com", subject="Welcome")
    assert_type(ref, JobRef[str])
    delivered = await deliver.options(
        priority="interactive",
        delay="5s",
        queue=f"webhooks/{host}",
        idempotency_key=f"evt-{event_id}",
        labels={"order": "17"},
    ).asubmit(url, event)
    assert_type(delivered, JobRef[int])
    refs = app.submit_many(send_email.request(to=u.email, subject="News") for u in users)
    assert_type(refs, list[JobRef[str]])
    transcode.options(after=refs, on_parent_failure="cancel").submit(video_id="v1")
    print(ref.state, ref.result(timeout="30s"), ref.receipt.offset)
    ref.cancel()
    assert_type(nightly.submit(), JobRef[None])
    assert_type(returns_outcomes.submit(3), JobRef[int])
    assert_type(returns_outcomes_later.submit(3), JobRef[str])
    assert_type(transcode(video_id="v1"), dict[str, int])


# ---- README, first screen ----------------------------------------------------------------------
readme = App("readme")


@readme.job(queue="email", max_attempts=5)
def send(to: str, subject: str) -> None: ...


send.submit(to="ann@example.com", subject="Welcome")
send.options(delay="2h", priority="bulk").submit(to="bob@example.com", subject="News")
