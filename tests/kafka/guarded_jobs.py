"""Jobs whose ends need every right of a dispatcher: written, retried, dead-lettered, published."""

from scheduler import App, Context, Fail, Message, Retry

app = App("guarded")


@app.job(queue="video")
def publish(ctx: Context) -> None:
    ctx.emit(Message("video-ready", value=b"done"))


@app.job(backoff={"base": "1ms", "max": "1ms"})
def try_again(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise Retry("6s")  # long enough for a retry topic


@app.job()
def die() -> None:
    raise Fail("no")
