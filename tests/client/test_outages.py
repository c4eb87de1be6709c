"""A broker that is not there, falls silent or comes back: no job is lost between "yes" and "no" (LO-04).

Times are scaled down: what the client is given ten seconds for, it is given one here.
"""

import asyncio
import os
import socket
import threading
from collections import Counter

import pytest

from scheduler import devkafka
from scheduler.client.errors import NotSubmitted, SubmitError, SubmitUnknown

SHORT_S = 1.0


@pytest.fixture(scope="module")
def cluster():
    try:
        started = devkafka.start()
    except devkafka.DevKafkaError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no broker: {error}")
        pytest.skip(f"no broker: {error}")
    with started:
        yield started


@pytest.fixture
def broker(cluster):
    yield cluster.nodes[0]
    cluster.nodes[0].resume()


@pytest.fixture
def own_topics(cluster, fresh_prefix, topics_at):
    return topics_at(cluster.bootstrap, fresh_prefix)


@pytest.fixture
def nobody():
    """An address where nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture
def warm(request_of):
    """Make a submitter's first submits succeed, which on a busy machine may take longer than the short time."""

    def until_both_work(submitter):
        for _ in range(20):
            try:
                submitter.submit(request_of())
                submitter.submit_many([request_of()])
            except SubmitError:
                continue
            return submitter
        pytest.fail("the broker does not get going")

    return until_both_work


class TestUnreachable:
    def test_it_says_where_and_what_to_do(self, nobody, submitter_at, request_of):
        submitter = submitter_at(nobody, timeout_s=SHORT_S)
        expected = f"no broker answered at {nobody} within 1 s. Start one with 'scheduler dev', or set KAFKA_BOOTSTRAP_SERVERS"
        for _ in "ab":
            with pytest.raises(NotSubmitted) as caught:
                submitter.submit(request_of())
            assert str(caught.value) == expected
        with pytest.raises(NotSubmitted) as caught:
            asyncio.run(submitter.asubmit(request_of()))
        assert str(caught.value) == expected

    def test_many_keep_their_ids_for_the_next_try(self, nobody, submitter_at, request_of):
        requests = [request_of() for _ in range(5)]
        stream = iter(requests)
        with pytest.raises(NotSubmitted) as caught:
            submitter_at(nobody, timeout_s=SHORT_S).submit_many(stream)
        assert caught.value.acknowledged == []
        assert caught.value.remaining + list(stream) == requests

    def test_ten_seconds_unless_told_otherwise(self, nobody, submitter_at):
        assert submitter_at(nobody)._config.timeout_s == 10.0


class TestSilence:
    def test_sent_and_not_acknowledged_is_unknown_and_from_then_on_not_submitted(
        self, broker, own_topics, submitter_at, warm, request_of
    ):
        submitter = warm(submitter_at(broker.bootstrap, own_topics.prefix, timeout_s=SHORT_S))
        broker.suspend()
        request = request_of({"n": 1})
        with pytest.raises(SubmitUnknown) as caught:
            submitter.submit(request)
        assert caught.value.job_id == request.id
        assert str(caught.value) == (
            f"SubmitUnknown(job_id='{request.id}'): sent, but no acknowledgement within 1 s. It may run. "
            "Submit again with the same id to be sure: options(job_id=e.job_id)"
        )
        refused = request_of()
        with pytest.raises(NotSubmitted, match="no broker answered"):
            submitter.submit(refused)
        broker.resume()
        again = submitter.submit(request_of({"n": 1}, job_id=caught.value.job_id))
        assert again.id == request.id
        assert request.id in own_topics.ids()
        assert refused.id not in own_topics.ids()

    def test_the_local_queue_holds_no_more_than_it_may(
        self, broker, own_topics, submitter_at, warm, request_of
    ):
        submitter = warm(
            submitter_at(broker.bootstrap, own_topics.prefix, timeout_s=SHORT_S, queue_records=1_000)
        )
        requests = [request_of({"n": n}) for n in range(5_000)]
        stream = iter(requests)
        broker.suspend()
        with pytest.raises(SubmitUnknown) as caught:
            submitter.submit_many(stream)
        assert 0 < len(caught.value.remaining) <= 1_001
        broker.resume()
        submitter.submit_many([*caught.value.remaining, *stream])
        assert set(own_topics.ids()) >= {request.id for request in requests}

    def test_a_queue_that_stays_full_is_named(self, broker, own_topics, submitter_at, warm, request_of):
        submitter = warm(
            submitter_at(broker.bootstrap, own_topics.prefix, timeout_s=SHORT_S, queue_records=10)
        )
        broker.suspend()

        async def all_at_once():
            return await asyncio.gather(
                *(submitter.asubmit(request_of()) for _ in range(30)), return_exceptions=True
            )

        outcomes = asyncio.run(all_at_once())
        kinds = Counter(type(outcome) for outcome in outcomes)
        assert kinds[SubmitUnknown] >= 10
        assert set(kinds) == {SubmitUnknown, NotSubmitted}
        assert any("the local queue stayed full for 1 s: 10 records" in str(outcome) for outcome in outcomes)

    def test_a_short_silence_is_not_noticed(self, broker, own_topics, submitter_at, warm, request_of):
        submitter = warm(submitter_at(broker.bootstrap, own_topics.prefix))

        def stream():
            broker.suspend()
            for n in range(2_000):
                yield request_of({"n": n})
            broker.resume()

        refs = submitter.submit_many(stream())
        assert {ref.id for ref in refs} <= set(own_topics.ids())

    def test_a_restart_is_waited_out(self, broker, own_topics, submitter_at, warm, request_of):
        submitter = warm(submitter_at(broker.bootstrap, own_topics.prefix))
        broker.kill()
        starting = threading.Thread(target=broker.start)
        starting.start()
        ref = submitter.submit(request_of())
        starting.join()
        assert ref.id in own_topics.ids()


class TestLedger:
    """LO-04: eight threads submit while the broker is frozen for a while."""

    def test_every_yes_is_there_and_every_no_is_not(self, broker, own_topics, submitter_at, warm, request_of):
        submitter = warm(
            submitter_at(broker.bootstrap, own_topics.prefix, timeout_s=SHORT_S, queue_records=1_000)
        )
        ledger = {"yes": [], "no": [], "unknown": []}
        troubled, under_way = threading.Event(), threading.Event()

        def work():
            for n in range(150):
                request = request_of({"n": n})
                try:
                    ledger["yes"].append(submitter.submit(request).id)
                except NotSubmitted:
                    ledger["no"].append(request.id)
                    troubled.set()
                except SubmitUnknown as error:
                    ledger["unknown"].append(error.job_id)
                if n == 50:
                    under_way.set()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        under_way.wait(60)
        broker.suspend()
        assert troubled.wait(30)
        broker.resume()
        for thread in threads:
            thread.join()
        assert sum(map(len, ledger.values())) == 8 * 150
        assert ledger["unknown"]
        there = Counter(own_topics.ids())
        assert set(ledger["yes"]) <= set(there)
        assert not set(ledger["no"]) & set(there)
        assert max(there.values()) == 1
