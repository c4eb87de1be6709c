"""What counts as wrong. Most of it some search finds; the rest is shown here by hand, for something else comes first."""

from tests.model import properties, runs
from tests.model.bounds import SMALLEST
from tests.model.model import Model
from tests.model.properties import CANCELLED_RUN, COMPLETED_TWICE, violated
from tests.model.rules import Rules
from tests.model.state import CANCELLED, SUCCEEDED, Dispatcher, Job, State, Worker

BY_HAND = {CANCELLED_RUN, COMPLETED_TWICE}


def with_job(job: Job) -> State:
    first = Model(Rules(), SMALLEST).first()
    return first._replace(job=job, dispatchers=(Dispatcher(), Dispatcher()))


def test_a_second_completion():
    once = with_job(Job(phase=SUCCEEDED, epoch=1, completed=(1,)))
    twice = once._replace(job=once.job._replace(completed=(1, 1)))
    assert violated(once, twice) == COMPLETED_TWICE


def test_a_run_of_a_cancelled_job():
    cancelled = with_job(Job(phase=CANCELLED, epoch=1))
    running = cancelled._replace(workers=(Worker(run=1, left=1),))
    assert violated(cancelled, running) == CANCELLED_RUN


def test_some_search_finds_each_of_the_others():
    named = {value for name, value in vars(properties).items() if name.isupper() and " " in value}
    found = {run.finds for run in (*runs.BROKEN, *runs.PAIRS)}
    assert named - found == BY_HAND
