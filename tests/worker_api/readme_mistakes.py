"""Deliberate mistakes: test_typing.py wants both type checkers to report each marked line and no other."""

from scheduler import App, Context, Message, Retry

app = App("shop")


@app.job(queue="email")
def send_email(to: str, subject: str, body: str = "") -> str:
    return to + subject + body


@app.job()
async def deliver(ctx: Context, url: str) -> int:
    return len(ctx.job_id + url)


async def mistakes(ctx: Context) -> None:
    send_email.submit(to=17, subject="Welcome")  # mistake
    send_email.submit(to="ann@example.com")  # mistake
    send_email.submit("ann@example.com", "Welcome", "Hello", "more")  # mistake
    send_email.submit(to="ann@example.com", subject="Welcome", boddy="x")  # mistake
    send_email.options(prioirty="bulk")  # mistake
    send_email.options(priority="urgent")  # mistake
    send_email.options(delay=5)  # mistake
    send_email.options(max_attempts="5")  # mistake
    await deliver.asubmit(ctx, "http://example.com")  # mistake
    await deliver.asubmit(url=b"http://example.com")  # mistake
    number: str = deliver.submit("http://example.com").result()  # mistake
    _ = send_email.submit(to="ann@example.com", subject=number).stat  # mistake
    raise Retry(after=30)  # mistake


def more_mistakes(ctx: Context) -> None:
    ctx.emit("send_email")  # mistake
    ctx.emit(Message("topic", value="text"))  # mistake
    ctx.progress("half")  # mistake
    ctx.epoch = 5  # mistake
    app.submit_many([send_email])  # mistake


@app.job(queu="email")  # mistake
def misspelt(to: str) -> None: ...


@app.job(memory=4)  # mistake
def without_unit(to: str) -> None: ...
