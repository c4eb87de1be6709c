"""The rights that are exported are enough for each user, and no user may do what is another's."""

import contextlib
import time

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from scheduler.bench.judge import Judge
from scheduler.bench.site import Process
from scheduler.cli.main import scheduler
from scheduler.client.client import Client
from scheduler.kafka.admin import Admin
from scheduler.kafka.fencing import resolve_transactions_of
from scheduler.kafka.layout import Layout
from scheduler.kafka.rights import users
from tests.docs.pages import ROOT
from tests.kafka.guarded import ADMIN, guarded_broker

pytestmark = [pytest.mark.broker, pytest.mark.slow]

LAYOUT = Layout(2, {"default": 2, "video": 2})
USERS = users(LAYOUT, {"video-ready"})
DEADLINE_S = 60


@pytest.fixture(scope="module")
def broker():
    with guarded_broker([user.name for user in USERS]) as broker:
        broker.allow(USERS)
        broker.admin.create_topics([NewTopic("video-ready", 1, 1)])["video-ready"].result(30)
        yield broker


def options(properties):
    return [argument for name, value in properties.items() for argument in ("-X", f"{name}={value}")]


@pytest.fixture(scope="module")
def installed(broker):
    """The topics, made by the operator."""
    given = ["--shards", "2", "--leases", "default=2,video=2", "--replication-factor", "1"]
    for command in (["apply", *given, "--execute"], ["apply", *given, "--execute"], ["verify"]):
        arguments = [*options(broker.properties("jobs.operator")), "topics", *command]
        ended = CliRunner().invoke(scheduler, arguments)
        assert ended.exit_code == 0, ended.output
    return broker


@pytest.fixture
def start(installed, tmp_path):
    """Starts commands as users; all are stopped at the end."""
    started = []

    def begin(user, *arguments):
        command = [*options(installed.properties(user)), *arguments]
        log = tmp_path / f"{user}-{len(started)}.log"
        started.append(Process(user, command, {"PYTHONPATH": str(ROOT)}, log))
        return started[-1]

    yield begin
    for process in reversed(started):
        process.stop()


def until(reached, processes):
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline, [process.log.read_text()[-2_000:] for process in processes]
        time.sleep(0.05)


def test_each_user_can_do_its_work(installed, start, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("queues: {video: {pool: video}}\nemits: {video: [video-ready]}\n")
    state = ("--state-dir", str(tmp_path / "state"))
    processes = [
        start("jobs.dispatcher", "dispatcher", "--settings", str(settings), *state),
        start("jobs.worker-default", "worker", "tests.kafka.guarded_jobs:app"),
        start("jobs.worker-video", "worker", "tests.kafka.guarded_jobs:app", "--pool", "video"),
    ]
    until(lambda: all(process.ready() for process in processes), processes)
    with contextlib.closing(Judge(installed.properties(ADMIN), LAYOUT.prefix)) as judge:
        with Client(connection=installed.properties("jobs.client"), prefix=LAYOUT.prefix) as client:
            client.submit("guarded.publish", {}, queue="video", priority="interactive")
            client.submit("guarded.try_again", {}, priority="bulk")
            client.submit("guarded.die", {})

        def all_ended():
            judge.follow(0.2)
            return len(judge.ends) == 3

        until(all_ended, processes)
        assert (judge.ended_by("succeeded"), judge.dead) == (2, {"failed": 1}), judge.ends
    assert Admin(installed.properties(ADMIN)).latest([TopicPartition("video-ready", 0)])[0].offset > 0
    checked = CliRunner().invoke(
        scheduler,
        [*options(installed.properties("jobs.operator")), "schema", "check", "--topic", "jobs.submit.bulk"],
    )
    assert checked.output == "1 read: 1 good\n"


def test_a_dispatcher_may_end_what_another_left_open_and_delete_what_was_consumed(installed):
    mine = installed.properties("jobs.dispatcher")
    resolve_transactions_of("jobs.dispatcher.other.1234", mine)
    topics = ("reports", "requests", "commands", "submit.default", "retry.5s")
    at = [TopicPartition(f"jobs.{topic}", 0, 0) for topic in topics]
    admin = Admin(mine)
    for deleted in admin.client.delete_records(at).values():
        deleted.result(30)


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        ("jobs.client", "jobs.reports"),
        ("jobs.client", "jobs.changelog"),
        ("jobs.client", "jobs.leases.default"),
        ("jobs.worker-video", "jobs.leases.video"),
        ("jobs.worker-video", "jobs.submit.default"),
        ("jobs.worker-video", "jobs.changelog"),
        ("jobs.operator", "jobs.reports"),
        ("jobs.operator", "jobs.submit.default"),
        ("jobs.dispatcher", "jobs.submit.default"),
    ],
)
def test_nobody_writes_what_is_anothers(installed, user, topic):
    errors = []
    producer = Producer({**installed.properties(user), "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        ("jobs.client", "jobs.leases.default"),
        ("jobs.worker-video", "jobs.leases.default"),
        ("jobs.worker-video", "jobs.submit.default"),
        ("jobs.worker-video", "jobs.dlq"),
        ("jobs.worker-video", "jobs.changelog"),
    ],
)
def test_nobody_even_sees_what_is_anothers(installed, user, topic):
    consumer = Consumer({**installed.properties(user), "group.id": "x"})
    found = consumer.list_topics(topic, timeout=30).topics[topic]
    consumer.close()
    assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_nobody_takes_a_dispatchers_transactional_id(installed):
    producer = Producer({**installed.properties("jobs.operator"), "transactional.id": "jobs.dispatcher.a.1"})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(30)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
