"""What handlers can do to a scheduler: errors of a megabyte, emits to where nothing is. Beside those of `jobs`."""

from scheduler import Context
from scheduler.worker.context import Message
from tests.integration.jobs import app, work

__all__ = ["app", "work"]


@app.job(queue="it")
def shout(secret: str) -> None:
    """Fail with an error of a megabyte; the payload is not in it."""
    assert secret
    raise RuntimeError("\U0001f600\n" * 200_000)


@app.job(queue="it")
def emit(ctx: Context, topic: str, count: int, size: int) -> None:
    for number in range(count):
        ctx.emit(Message(topic, b"x" * size, key=str(number)))
