"""Handlers are found in any number of apps."""

import sys
import types

import pytest

from scheduler import App, Client, Context

here = App("here")


@here.job()
def loaded() -> str:
    return "loaded"


early = loaded.request()  # made before any fixture


def app_with_job(name: str, value: str) -> App:
    app = App(name)

    def job() -> str:
        return value

    app.job()(job)
    return app


def test_several_apps_in_one_test(jobs):
    apps = [app_with_job(name, name) for name in ("a", "b", "c")]
    refs = [app.jobs[f"{app.name}.job"].submit() for app in apps]
    jobs.run()
    assert [ref.result() for ref in refs] == ["a", "b", "c"]


@pytest.mark.parametrize("value", ["first", "second"])
def test_the_app_that_submitted_is_meant_though_others_are_named_alike(jobs, value):
    apps = {value: app_with_job("same", value) for value in ("first", "second")}
    ref = apps[value].jobs["same.job"].submit()
    jobs.run()
    assert ref.result() == value


def test_two_apps_named_alike_in_one_test_are_refused(jobs):
    for value in ("first", "second"):
        app_with_job("same", value).jobs["same.job"].submit()
    with pytest.raises(LookupError, match=r"2 apps have a job 'same\.job': say which one by jobs\.use"):
        jobs.run()


def test_requests_made_earlier_find_their_app_among_loaded_modules(jobs):
    (ref,) = here.submit_many([early])
    jobs.run()
    assert ref.result() == "loaded"


def test_an_app_can_be_named(jobs):
    app = app_with_job("named", "value")
    ref = Client().submit("named.job")
    jobs.use(app)
    jobs.use(app)
    jobs.run()
    assert ref.result() == "value"


def test_an_emitted_job_of_another_app_is_run(jobs):
    other = app_with_job("other", "emitted")
    app = App("emitting")

    @app.job()
    def parent(ctx: Context) -> None:
        ctx.emit(other.jobs["other.job"].request())

    ref = parent.submit()
    jobs.run()
    assert ref.state == "succeeded" and jobs.submitted[-1].ref.result() == "emitted"


def test_a_job_without_a_handler_waits_and_the_test_is_told_once(jobs):
    ref = Client().submit("nowhere.job")
    with pytest.warns(UserWarning, match=r"no handler for 'nowhere\.job' in any app .* jobs\.use\(app\)"):
        jobs.run()
    assert ref.state == "retrying" and jobs.runs(ref) == []
    jobs.advance("1h")
    jobs.use(app_with_job("nowhere", "at last"))
    jobs.advance("1m")
    assert ref.result() == "at last"


def test_odd_modules_are_passed_by(jobs, monkeypatch):
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            raise AssertionError("it was touched")

    class LazyValue:
        @property
        def __class__(self):
            raise AssertionError("it was touched")

    module = types.ModuleType("odd_values")
    module.value = LazyValue()
    monkeypatch.setitem(sys.modules, "odd_values", module)
    monkeypatch.setitem(sys.modules, "odd_module", Lazy("odd_module"))
    monkeypatch.setitem(sys.modules, "odd_entry", 17)
    (ref,) = here.submit_many([early])
    jobs.run()
    assert ref.result() == "loaded"
