"""What a handler may ask and tell."""

import math
from datetime import UTC, datetime

import pytest

from scheduler import App, Context, Message, Stopped
from scheduler.codec.job import decode_job
from scheduler.core import bounds
from scheduler.core.reports import Emit
from scheduler.worker.context import RunInfo
from scheduler.worker.lifespan import Resources


class RecordedRun:
    """Keeps what it was told."""

    def __init__(self):
        self.saved, self.told, self.shields = [], [], []
        self.reason = ""

    def save(self, data):
        self.saved.append(data)

    def progress(self, fraction, note):
        self.told.append((fraction, note))

    def stopping(self):
        return self.reason

    def remaining_s(self):
        return 12.5

    def shield(self, seconds):
        self.shields.append(seconds)


@pytest.fixture
def run():
    return RecordedRun()


def context(run, **known):
    info = RunInfo("id-1", "acme", "shop.greet", "email", attempt=2, max_attempts=5, epoch=7, **known)
    return Context(info, run, Resources([17]))


def test_what_is_known(run):
    ctx = context(run, labels={"order": "17"}, checkpoint=b'{"n": 3}', nominal_at_ms=1_798_761_600_001)
    assert (ctx.job_id, ctx.tenant, ctx.type, ctx.queue) == ("id-1", "acme", "shop.greet", "email")
    assert (ctx.attempt, ctx.max_attempts, ctx.epoch) == (2, 5, 7)
    assert (ctx.labels, ctx.parents, ctx.checkpoint) == ({"order": "17"}, {}, {"n": 3})
    assert ctx.nominal_time == datetime(2027, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC)
    assert ctx.remaining() == 12.5
    assert ctx.get(int) == 17


def test_no_checkpoint_is_none_and_no_nominal_time_is_an_error(run):
    assert context(run).checkpoint is None
    with pytest.raises(LookupError, match=r"shop.greet has no nominal time"):
        _ = context(run).nominal_time


def test_nothing_can_be_set(run):
    with pytest.raises(AttributeError):
        context(run).epoch = 8


class TestCheck:
    def test_leaves_through_finally_but_past_except_exception(self, run):
        ctx = context(run)
        ctx.check()
        run.reason = "cancelled"
        assert ctx.stopping == "cancelled"
        tidied = []

        def handler():
            try:
                ctx.check()
            except Exception:
                tidied.append("swallowed")
            finally:
                tidied.append("tidied")

        with pytest.raises(Stopped) as caught:
            handler()
        assert caught.value.reason == "cancelled"
        assert tidied == ["tidied"]

    def test_a_shield_holds_it_off(self, run):
        ctx = context(run)
        with ctx.shield("10s"):
            run.reason = "draining"
            ctx.check()
            with ctx.shield("1s"):
                ctx.check()
            ctx.check()
        assert run.shields == [10.0, 1.0, 0]
        with pytest.raises(Stopped):
            ctx.check()

    @pytest.mark.parametrize("reason", ["timeout", "lost"])
    def test_but_not_what_a_shield_can_t_keep_away(self, run, reason):
        ctx = context(run)
        with ctx.shield("10s"):
            run.reason = reason
            with pytest.raises(Stopped):
                ctx.check()


class TestSave:
    def test_keeps_json(self, run):
        ctx = context(run)
        ctx.save({"n": 4, "seen": (1, 2)})
        assert run.saved == [b'{"n":4,"seen":[1,2]}']
        assert ctx.checkpoint == {"n": 4, "seen": [1, 2]}

    def test_is_bounded(self, run):
        ctx = context(run)
        ctx.save("x" * (bounds.CHECKPOINT_MAX_BYTES - 2))
        with pytest.raises(ValueError, match="checkpoint of 16385 bytes is above 16384"):
            ctx.save("x" * (bounds.CHECKPOINT_MAX_BYTES - 1))
        assert len(run.saved) == 1

    def test_what_json_would_change_is_refused(self, run):
        with pytest.raises(ValueError, match="checkpoint has a number that JSON does not know"):
            context(run).save({"a": math.nan})
        with pytest.raises(ValueError, match="checkpoint has a time without zone"):
            context(run).save({"a": datetime(2027, 1, 1, tzinfo=UTC).replace(tzinfo=None)})


def test_progress_never_fails_a_job(run):
    ctx = context(run)
    for fraction in (0.5, -1, 2, math.nan):
        ctx.progress(fraction)
    ctx.progress(0.1, "é" * 100)
    ctx.progress(1, "lone \ud800")
    assert run.told[:4] == [(0.5, ""), (0.0, ""), (1.0, ""), (0.0, "")]
    assert run.told[4] == (0.1, "é" * 64)
    assert run.told[5] == (1.0, "lone ?")


class TestEmit:
    def test_jobs_and_messages_in_order(self, run):
        app = App("shop")

        @app.job(queue="email", priority="bulk")
        def send(to: str) -> None: ...

        ctx = context(run)
        request = send.request(to="ann@example.com")
        ctx.emit(request)
        ctx.emit(Message("video-ready", key="v1", value=b"..."))
        ctx.emit(Message("video-ready", b"no key"))
        job, *messages = ctx.emitted
        assert (job.topic, job.key, job.band) == ("", request.id.encode(), 2)
        assert decode_job(job.value) == request.spec
        assert messages == [Emit("video-ready", b"v1", b"..."), Emit("video-ready", b"", b"no key")]

    def test_are_bounded_in_number(self, run):
        ctx = context(run)
        for _ in range(bounds.EMITS_MAX):
            ctx.emit(Message("t", b""))
        with pytest.raises(ValueError, match="a run may emit 100 records, not more"):
            ctx.emit(Message("t", b""))
        assert len(ctx.emitted) == bounds.EMITS_MAX

    def test_are_bounded_in_size(self, run):
        ctx = context(run)
        ctx.emit(Message("t", b"x" * (bounds.EMITS_MAX_BYTES - 1)))
        with pytest.raises(ValueError, match="emits of 262145 bytes are above 262144 together"):
            ctx.emit(Message("t", b""))

    def test_a_message_is_bytes_to_a_topic(self, run):
        with pytest.raises(ValueError, match="needs a topic"):
            context(run).emit(Message("", b""))
        with pytest.raises(TypeError, match="a message's value is bytes, not str"):
            context(run).emit(Message("t", "text"))
