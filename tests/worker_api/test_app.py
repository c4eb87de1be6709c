"""Declaring jobs: mistakes are found at import, and nothing else happens there."""

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import scheduler
from scheduler import App, Context, Fail, InvalidJob, JobRef, Retry
from scheduler.core.spec import Band
from scheduler.worker.app import JobOptions, submitting_to
from scheduler.worker.definition import Kind, size_bytes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def app():
    return App("shop")


class Recorder:
    """A submitter that keeps what it is given."""

    def __init__(self):
        self.requests = []

    def submit(self, request):
        self.requests.append(request)
        return JobRef(request.id, "t", 0, len(self.requests))

    async def asubmit(self, request):
        return self.submit(request)

    def submit_many(self, requests):
        return [self.submit(request) for request in requests]


@pytest.fixture
def recorder():
    recorder = Recorder()
    with submitting_to(recorder):
        yield recorder


class TestDeclaring:
    def test_what_the_worker_gets(self, app):
        @app.job(
            queue="video", memory="4GB", give_up_on=(KeyError,), timeout="20m", cron="0 2 * * *", tz="UTC"
        )
        def transcode(ctx: Context, video_id: str) -> int:
            return len(video_id)

        @app.job()
        async def deliver(url: str) -> None: ...

        assert list(app.jobs) == ["shop.transcode", "shop.deliver"]
        known = app.jobs["shop.transcode"].definition
        assert (known.type, known.name, known.kind, known.takes_context) == (
            "shop.transcode", "transcode", Kind.SYNC, True,
        )  # fmt: skip
        assert known.fn is transcode.fn
        assert known.memory_bytes == 4_000_000_000
        assert known.gives_up_on(KeyError())
        assert not known.gives_up_on(ValueError())
        assert (known.requirements.cron, known.requirements.tz) == ("0 2 * * *", "UTC")
        other = deliver.definition
        assert (other.kind, other.takes_context, other.memory_bytes) == (Kind.ASYNC, False, 0)

    def test_it_looks_like_the_function(self, app):
        @app.job()
        def documented(a: int) -> int:
            """Say what it does."""
            return a

        assert documented.__name__ == "documented"
        assert documented.__doc__ == "Say what it does."
        assert repr(documented) == "<Job shop.documented>"

    @pytest.mark.parametrize("option", sorted(JobOptions.__annotations__))
    def test_a_typo_in_any_option_is_refused_with_the_right_name(self, app, option):
        typo = option + option[-1]
        with pytest.raises(InvalidJob) as caught:
            app.job(**{typo: "x"})(documented)
        assert str(caught.value) == f"documented: unknown option {typo!r}: did you mean {option!r}?"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"timeout": 30}, "documented: timeout: 30 has no unit: write '30s', or give a timedelta"),
            (
                {"memory": 4_000_000},
                "documented: memory: 4000000 is not a size: write it like '512MB' or '4GiB'",
            ),
            ({"memory": "4"}, "documented: memory: '4' is not a size"),
            (
                {"give_up_on": ("KeyError",)},
                "documented: give_up_on: ('KeyError',) is not a tuple of exception classes",
            ),
            ({"priority": "urgent"}, "documented: priority: 'urgent' is not 'interactive'"),
            ({"tz": "UTC"}, "documented: tz: it is the time zone of a cron=, which is missing"),
            ({"cron": 5}, "documented: cron: 5 is not a string"),
            ({"name": "a b"}, "documented: the type 'shop.a b' is not 1 to 128 of"),
            ({"name": "x" * 124}, "documented: the type 'shop.xxx"),
            ({"max_attempts": "5"}, "documented: max_attempts: '5' is not an integer"),
        ],
    )
    def test_options_that_can_t_be(self, app, options, message):
        with pytest.raises(InvalidJob) as caught:
            app.job(**options)(documented)
        assert str(caught.value).startswith(message)
        assert app.jobs == {}

    def test_two_of_one_type(self, app):
        app.job(name="same")(documented)
        app.job(name="same")(documented)  # its module was reloaded
        with pytest.raises(
            InvalidJob, match=r"other: shop.same is taken by .*documented: give one of them a name="
        ):
            app.job(name="same")(other)

    def test_parentheses_are_needed(self, app):
        with pytest.raises(InvalidJob, match=r"write @app.job\(\) with parentheses"):
            app.job(documented)

    @pytest.mark.parametrize("thing", [int, "text", print, None])
    def test_only_functions(self, app, thing):
        with pytest.raises(InvalidJob, match="decorates functions"):
            app.job()(thing)

    @pytest.mark.parametrize("name", ["", "a b", "caf\u00e9", 5.5, None])
    def test_names_of_apps(self, name):
        if name is None or isinstance(name, float):
            name = str(name) + " "
        with pytest.raises(InvalidJob, match="App: name: "):
            App(name)


def documented(a: int) -> int:
    return a


def other(a: int) -> int:
    return a


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0B", 0),
        ("4GB", 4_000_000_000),
        ("4GiB", 4 << 30),
        ("512 MB", 512_000_000),
        ("1.5KiB", 1_536),
        ("1TB", 10**12),
    ],
)
def test_sizes(text, size):
    assert size_bytes(text) == size


class TestCalling:
    def test_a_plain_call_is_the_function(self, app):
        @app.job()
        def add(a: int, b: int = 2) -> int:
            return a + b

        @app.job()
        async def later(ctx: Context, a: int) -> int:
            ctx.save(a)
            return ctx.checkpoint + ctx.attempt

        assert add(1) == 3
        assert later(5) == 6

    def test_an_outcome_returned_is_raised(self, app):
        @app.job()
        def no(a: int) -> int | Fail:
            return Fail("no") if a else a

        with pytest.raises(Fail, match="no"):
            no(1)

    def test_inside_an_event_loop_the_function_is_awaited(self, app):
        @app.job()
        async def later(a: int) -> int:
            return a

        async def go():
            with pytest.raises(RuntimeError, match=r"await its .fn"):
                later(1)
            return await later.fn(2)

        assert asyncio.run(go()) == 2


class TestSubmitting:
    def test_terms_of_the_job_under_terms_of_the_call(self, app, recorder):
        @app.job(queue="email", max_attempts=7, timeout="30s", priority="bulk", labels={"team": "a"})
        def send(to: str, subject: str = "") -> None: ...

        ref = send.submit(to="ann@example.com")
        (request,) = recorder.requests
        assert ref.id == request.id
        assert (request.spec.type, request.spec.queue, request.spec.max_attempts) == ("shop.send", "email", 7)
        assert (request.spec.timeout_ms, request.band, request.spec.labels) == (
            30_000,
            Band.BULK,
            {"team": "a"},
        )
        assert request.spec.payload == b'{"to":"ann@example.com"}'
        send.options(queue="vip", priority=0).options(delay="1h").submit("bob@example.com")
        send.submit("carl@example.com")
        vip, plain = recorder.requests[1:]
        assert (vip.spec.queue, vip.band, vip.spec.max_attempts) == ("vip", Band.INTERACTIVE, 7)
        assert vip.spec.run_at_ms > 0
        assert (plain.spec.queue, plain.spec.run_at_ms) == ("email", 0)

    def test_async_and_many(self, app, recorder):
        @app.job()
        async def deliver(ctx: Context, url: str) -> None: ...

        one = asyncio.run(deliver.asubmit("http://a"))
        many = app.submit_many(deliver.request(url=f"http://{n}") for n in range(3))
        assert [request.id for request in recorder.requests] == [one.id, *(ref.id for ref in many)]

    def test_mistakes_come_before_kafka(self, app, recorder):
        @app.job()
        def send(to: str) -> None: ...

        for wrong in (
            lambda: send.submit(17),
            lambda: send.options(prioirty="bulk"),
            lambda: send.options(after=["x"]),
            lambda: send.options(timeout="25h").submit("a"),
        ):
            with pytest.raises(InvalidJob, match=r"^send: "):
                wrong()
        assert recorder.requests == []

    def test_raw_bytes(self, app, recorder):
        @app.job(content_type="image/png")
        def thumbnail(image: bytes) -> None: ...

        thumbnail.submit(b"\x89PNG")
        assert recorder.requests[0].spec.payload == b"\x89PNG"
        assert recorder.requests[0].spec.content_type == "image/png"

    def test_the_tenant_of_the_app(self, recorder):
        app = App("shop", tenant="acme")

        @app.job()
        def send(to: str) -> None: ...

        send.submit("a")
        send.options(tenant="other").submit("a")
        assert [request.spec.tenant for request in recorder.requests] == ["acme", "other"]

    def test_on_a_real_broker(self, kafka, fresh_prefix, monkeypatch):
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka)
        monkeypatch.setenv("JOBS_PREFIX", fresh_prefix)
        app = App("shop")

        @app.job()
        def send(to: str) -> None: ...

        with pytest.raises(
            scheduler.NotSubmitted, match=f"there is no topic {fresh_prefix}submit.default at {kafka}"
        ):
            send.submit("a")
        app.submitter().close()


def test_arounds_surround_first_one_outermost(app):
    log = []
    for name in ("outer", "inner"):

        @app.around
        @contextmanager
        def around(ctx, name=name):
            log.append(f"{name} in")
            try:
                yield
            finally:
                log.append(f"{name} out")

    with pytest.raises(Retry), app.surroundings(None):
        raise Retry("5s")
    assert log == ["outer in", "inner in", "inner out", "outer out"]


class TestImporting:
    def test_no_client_library_and_no_thread_before_the_first_submit(self):
        script = """if True:
            import sys, threading
            import scheduler
            assert not [name for name in sys.modules if name.startswith("scheduler.")], "import scheduler is not lazy"
            from scheduler import App, Client, Context, Fail, Message, Retry, Snooze
            app = App("shop")
            @app.job(queue="email", timeout="30s")
            def send_email(ctx: Context, to: str) -> None: ...
            send_email.options(priority="bulk").request("ann@example.com")
            heavy = {"fastavro", "asyncio", "confluent_kafka.schema_registry", "aiokafka"} & set(sys.modules)
            print(sorted(heavy - {"asyncio"}), "confluent_kafka" in sys.modules, threading.active_count())
        """
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        lines = {}
        for what in (
            "App, Context, Fail, Message, Retry, Snooze",
            "App, Client, Context, Fail, Message, Retry, Snooze",
        ):
            code = script.replace("App, Client, Context, Fail, Message, Retry, Snooze", what)
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
            )
            assert done.returncode == 0, done.stderr
            lines[what] = done.stdout.strip()
        assert list(lines.values()) == ["[] False 1", "[] True 1"]

    def test_every_public_name_is_there(self):
        assert {name: getattr(scheduler, name) for name in scheduler.__all__}
        assert set(scheduler.__all__) <= set(dir(scheduler))
        with pytest.raises(AttributeError, match="module 'scheduler' has no attribute 'Ap'"):
            _ = scheduler.Ap
