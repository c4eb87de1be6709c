"""What handlers share in one child."""

import asyncio
from contextlib import asynccontextmanager, contextmanager

import pytest

from scheduler import App
from scheduler.worker.lifespan import Resources, open_async, open_sync


class Base: ...


class Pool(Base): ...


class Session(Base): ...


@pytest.fixture
def app_and_log():
    app, log = App("shop"), []

    @app.lifespan
    @contextmanager
    def pool():
        log.append("pool opened")
        try:
            yield Pool()
        finally:
            log.append("pool closed")

    @app.lifespan
    @asynccontextmanager
    async def session():
        log.append("session opened")
        yield Session()
        log.append("session closed")

    return app, log


def test_sync_children_open_what_is_sync(app_and_log):
    app, log = app_and_log
    with open_sync(app.lifespans) as resources:
        assert isinstance(resources.get(Pool), Pool)
        with pytest.raises(LookupError) as caught:
            resources.get(Session)
    assert str(caught.value) == (
        "no lifespan yielded a Session; there is Pool; async lifespans are not open for sync jobs: session"
    )
    assert log == ["pool opened", "pool closed"]


def test_event_loops_open_both_and_close_in_reverse(app_and_log):
    app, log = app_and_log

    async def go():
        async with open_async(app.lifespans) as resources:
            assert isinstance(resources.get(Pool), Pool)
            assert isinstance(resources.get(Session), Session)

    asyncio.run(go())
    assert log == ["pool opened", "session opened", "session closed", "pool closed"]


def test_what_is_open_is_closed_if_the_next_one_fails(app_and_log):
    app, log = app_and_log

    @app.lifespan
    @contextmanager
    def broken():
        raise ConnectionError("refused")
        yield

    with pytest.raises(ConnectionError), open_sync(app.lifespans):
        pytest.fail("not reached")
    assert log == ["pool opened", "pool closed"]


def test_by_exact_type_else_by_subtype():
    base, pool = Base(), Pool()
    assert Resources([pool, base]).get(Base) is base
    assert Resources([pool]).get(Base) is pool
    with pytest.raises(LookupError, match="2 lifespans yielded a Base: give each its own type"):
        Resources([Pool(), Session()]).get(Base)
    with pytest.raises(LookupError, match="no lifespan yielded a Pool; there is nothing"):
        Resources().get(Pool)
