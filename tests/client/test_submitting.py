"""Submitting to a real broker: what a receipt says is there."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler import AsyncClient, Client
from scheduler.client.errors import InvalidJob, NoGateway, NotSubmitted
from scheduler.core import keys

ROOT = Path(__file__).parents[2]


class TestReceipts:
    def test_a_receipt_is_where_the_record_is(self, submitter, topics, request_of):
        ref = submitter.submit(request_of({"a": 1}, labels={"order": "17"}))
        (message,) = topics.messages()
        assert ref.receipt == (message.topic(), message.partition(), message.offset())
        assert message.key() == ref.id.encode()
        (spec,) = topics.specs()
        assert (spec.job_id, spec.payload, spec.labels) == (ref.id, b'{"a":1}', {"order": "17"})

    def test_the_partition_is_the_shard_of_the_id(self, submitter, request_of):
        ids = [*(f"id-{n}" for n in range(20)), *(request_of().id for _ in range(20))]
        refs = submitter.submit_many(request_of(job_id=one) for one in ids)
        refs += [submitter.submit(request_of(job_id=one)) for one in ids]
        assert [ref.receipt.partition for ref in refs] == [keys.shard_of(ref.id, 8) for ref in refs]

    def test_the_priority_is_the_topic(self, submitter, topics, request_of):
        refs = submitter.submit_many(
            request_of(priority=p) for p in ("interactive", "default", "bulk", 0, 4, 5)
        )
        bands = [ref.receipt.topic.rpartition(".")[2] for ref in refs]
        assert bands == ["interactive", "default", "bulk", "interactive", "default", "bulk"]
        assert [spec.priority for spec in topics.specs("interactive")] == [0, 0]

    def test_many_come_in_their_order_each_with_its_receipt(self, submitter, topics, request_of):
        requests = [request_of({"n": n}) for n in range(3_000)]
        refs = submitter.submit_many(iter(requests))
        assert [ref.id for ref in refs] == [request.id for request in requests]
        there = {m.key().decode(): (m.topic(), m.partition(), m.offset()) for m in topics.messages()}
        assert {ref.id: ref.receipt for ref in refs} == there

    def test_none_is_fine(self, submitter):
        assert submitter.submit_many([]) == []

    def test_questions_need_a_gateway_that_is_not_there_yet(self, submitter, request_of):
        ref = submitter.submit(request_of())
        with pytest.raises(NoGateway) as caught:
            ref.result(timeout="30s")
        assert str(caught.value) == (
            "reading a result is not possible in this version, which has no gateway. Let the handler publish what "
            "others need: ctx.emit(Message(topic, value)). In a test, the fixture 'jobs' answers"
        )
        instead = {"lifecycle": (lambda: ref.state, lambda: ref.attempts), "expires_in": (ref.cancel,)}
        for word, questions in instead.items():
            for ask in questions:
                with pytest.raises(NoGateway, match=f"which has no gateway.*{word}"):
                    ask()


class TestKeys:
    """DU-09: the same key is the same id, by whichever way and however often."""

    def test_single_and_bulk_give_the_same_ids(self, submitter, topics, request_of):
        def four():
            return [
                request_of({"p": 1}, idempotency_key="K"),
                request_of({"p": 1}, idempotency_key="K"),
                request_of({"p": 2}, idempotency_key="K"),
                request_of({"p": 1}, idempotency_key="K", tenant="other"),
            ]

        single = [submitter.submit(request).id for request in four()]
        bulk = [ref.id for ref in submitter.submit_many(four())]
        mine, others = keys.id_from_key("default", "K"), keys.id_from_key("other", "K")
        assert single == bulk == [mine, mine, mine, others]
        assert set(topics.ids()) == {mine, others}

    def test_a_hundred_at_once(self, submitter, topics, request_of):
        with ThreadPoolExecutor(16) as pool:
            refs = list(
                pool.map(lambda _: submitter.submit(request_of({"p": 1}, idempotency_key="K")), range(100))
            )
        assert len({ref.id for ref in refs}) == 1
        assert len({ref.receipt for ref in refs}) == 100
        assert len({message.partition() for message in topics.messages()}) == 1


class TestAsync:
    def test_many_coroutines(self, submitter, topics, request_of):
        async def all_at_once():
            return await asyncio.gather(*(submitter.asubmit(request_of({"n": n})) for n in range(500)))

        refs = asyncio.run(all_at_once())
        assert sorted(ref.id for ref in refs) == sorted(topics.ids())
        again = asyncio.run(all_at_once())  # another loop, the same producers
        assert len({ref.receipt for ref in refs + again}) == 1_000

    def test_a_full_local_queue_is_waited_out(self, topics, submitter_at, request_of):
        small = submitter_at(topics.bootstrap, topics.prefix, queue_records=20)

        async def all_at_once():
            return await asyncio.gather(*(small.asubmit(request_of({"n": n})) for n in range(500)))

        assert len(asyncio.run(all_at_once())) == 500

    def test_a_cancelled_submit_leaves_the_client_whole(self, submitter, request_of):
        async def cancelled():
            task = asyncio.ensure_future(submitter.asubmit(request_of()))
            await asyncio.tasks.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await submitter.asubmit(request_of())

        assert asyncio.run(cancelled()).receipt.offset >= 0


class TestClients:
    def test_by_the_name_of_a_type(self, topics):
        with Client(
            "acme", connection={"bootstrap.servers": topics.bootstrap}, prefix=topics.prefix
        ) as client:
            one = client.submit("invoice.render", {"id": 17}, queue="invoices", timeout="1m")
            many = client.submit_many(client.request("invoice.render", {"id": n}) for n in range(5))
        assert {spec.job_id for spec in topics.specs()} == {one.id, *(ref.id for ref in many)}
        assert {(spec.tenant, spec.type) for spec in topics.specs()} == {("acme", "invoice.render")}

    def test_async(self, topics):
        async def go():
            connection = {"bootstrap.servers": topics.bootstrap}
            async with AsyncClient(connection=connection, prefix=topics.prefix) as client:
                one = await client.submit("invoice.render", {"id": 17})
                many = await client.submit_many([client.request("invoice.render", b"{}") for _ in range(5)])
                return [one, *many]

        assert sorted(ref.id for ref in asyncio.run(go())) == sorted(topics.ids())

    def test_closing_is_not_the_end(self, submitter, topics, request_of):
        submitter.submit(request_of())
        submitter.close()
        submitter.submit(request_of())
        assert len(topics.ids()) == 2


class TestThreads:
    def test_a_client_that_is_dropped_leaves_no_thread_behind(self, topics):
        before = set(threading.enumerate())
        client = Client(connection={"bootstrap.servers": topics.bootstrap}, prefix=topics.prefix)
        client.submit("a.b")
        mine = set(threading.enumerate()) - before
        assert len(mine) == 1
        del client
        for thread in mine:
            thread.join(10)
            assert not thread.is_alive()


class TestRefusals:
    def test_a_missing_topic_is_named(self, kafka, submitter_at, request_of):
        with pytest.raises(NotSubmitted) as caught:
            submitter_at(kafka, "nowhere.").submit(request_of())
        assert str(caught.value) == (
            f"there is no topic nowhere.submit.default at {kafka}, or it lacks the job's partition. "
            "Create the topics with 'scheduler topics apply', or set JOBS_PREFIX"
        )

    def test_the_topics_own_limit_is_named_before_anything_is_sent(
        self, kafka, fresh_prefix, topics_at, submitter_at, request_of
    ):
        small = topics_at(kafka, fresh_prefix, **{"max.message.bytes": "50000"})
        submitter = submitter_at(kafka, small.prefix)
        submitter.submit(request_of(b'"' + b"x" * 40_000 + b'"'))
        large = b'"' + b"x" * 60_000 + b'"'
        expected = (
            r"shop.greet: payload: 60002 bytes make a record of 60\d\d\d bytes, "
            rf"above max.message.bytes 50000 of {small.name('default')}"
        )
        with pytest.raises(InvalidJob, match=expected):
            submitter.submit(request_of(large))
        with pytest.raises(InvalidJob, match=expected):
            asyncio.run(submitter.asubmit(request_of(large)))
        requests = [request_of(), request_of(large), request_of()]
        with pytest.raises(InvalidJob, match=expected) as caught:
            submitter.submit_many(requests)
        assert [ref.id for ref in caught.value.acknowledged] == [requests[0].id]
        assert caught.value.remaining == [requests[1]]
        assert len(small.ids()) == 2

    def test_small_records_are_not_refused_for_the_batch_they_travel_in(
        self, kafka, fresh_prefix, topics_at, submitter_at, request_of
    ):
        small = topics_at(kafka, fresh_prefix, **{"max.message.bytes": "300000"})
        refs = submitter_at(kafka, small.prefix).submit_many(
            request_of(b'"' + os.urandom(7_500).hex().encode() + b'"') for _ in range(300)
        )
        assert len(refs) == 300

    def test_an_error_of_the_iterable_passes_with_a_note(self, submitter, topics, request_of):
        def broken():
            for _ in range(10):
                yield request_of()
            raise LookupError("the eleventh")

        with pytest.raises(LookupError, match="the eleventh") as caught:
            submitter.submit_many(broken())
        assert caught.value.__notes__ == ["10 jobs of this stream were acknowledged before"]
        assert len(topics.ids()) == 10


class TestProcesses:
    def test_a_client_made_before_a_fork_works_in_the_child(self, submitter, topics, request_of):
        submitter.submit(request_of())
        submitter.submit_many([request_of()])  # both producers have threads that the child lacks
        children = [
            fork(lambda: submitter.submit_many([submitter.submit(request_of()) and request_of()]))
            for _ in "ab"
        ]
        submitter.submit(request_of())
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
        assert len(topics.ids()) == 2 + 2 * 2 + 1
        assert len(set(topics.ids())) == len(topics.ids())

    def test_a_fork_in_the_middle_of_a_submit(self, submitter, topics, request_of):
        going, enough = threading.Event(), threading.Event()

        def stream():
            while not enough.is_set():
                yield request_of()
                going.set()

        thread = threading.Thread(target=lambda: submitter.submit_many(stream()))
        thread.start()
        going.wait(10)
        child = fork(lambda: submitter.submit(request_of(job_id="from-the-child")))
        assert os.waitpid(child, 0)[1] == 0
        enough.set()
        thread.join()
        assert topics.ids().count("from-the-child") == 1

    def test_what_is_queued_at_exit_is_sent(self, topics):
        script = """if True:
            import sys, threading
            from scheduler import Client
            client = Client(connection={"bootstrap.servers": sys.argv[1]}, prefix=sys.argv[2])
            taken = threading.Event()
            def stream():
                for n in range(500):
                    yield client.request("a.b", {"n": n})
                taken.set()
                threading.Event().wait()  # the stream never ends, the program does
            threading.Thread(target=client.submit_many, args=(stream(),), daemon=True).start()
            taken.wait()
        """
        with run(script, topics) as process:
            assert process.wait(30) == 0
        assert len(topics.ids()) == 500

    def test_whatever_was_acknowledged_before_sigterm_is_there(self, topics):
        script = """if True:
            import os, sys, threading
            from scheduler import Client
            client = Client(connection={"bootstrap.servers": sys.argv[1]}, prefix=sys.argv[2])
            def forever():
                while True:
                    os.write(1, (client.submit("a.b").id + "\\n").encode())  # one write, one line
            for _ in range(8):
                threading.Thread(target=forever, daemon=True).start()
            threading.Event().wait()
        """
        with run(script, topics) as process:
            told = [process.stdout.readline() for _ in range(400)]
            process.send_signal(signal.SIGTERM)
            told += [line for line in process.stdout if line.endswith("\n")]
        assert len(told) >= 400
        assert {line.strip() for line in told} <= set(topics.ids())


def fork(work):
    """Do `work` in a forked child that ends like a program, through the interpreter's end; return its pid."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        from scheduler.client import submitter

        submitter._close_all()
        os._exit(status)


def run(script, topics):
    return subprocess.Popen(
        [sys.executable, "-c", script, topics.bootstrap, topics.prefix],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
