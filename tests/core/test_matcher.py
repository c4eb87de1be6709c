"""Which job a slot gets: bands, tenants, queues, suspects, and order inside a queue."""

from collections import Counter
from collections.abc import Callable

import pytest

from scheduler.core import keyspace
from scheduler.core.match import Matcher, Queue
from scheduler.core.settings import QueueSettings, Settings
from scheduler.core.spec import Band


def nothing(start: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    return []


class Bench:
    """A matcher fed by hand; every pushed key is ready until it is taken."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.matcher = Matcher(settings or Settings())
        self.sequence = 0

    def push(
        self,
        *,
        band: int = Band.DEFAULT,
        tenant: str = "t",
        queue: str = "q",
        suspect: bool = False,
        priority: int = 3,
        shard: int = 0,
        at_ms: int | None = None,
    ) -> bytes:
        self.sequence += 1
        lane = keyspace.lane_prefix(band, tenant, queue, suspect=suspect)
        order = bytes([priority]) + (self.sequence if at_ms is None else at_ms).to_bytes(8, "big")
        key = lane + order + self.sequence.to_bytes(8, "big") + b"job-%d" % self.sequence
        self.matcher.push(shard, lane, key, nothing)
        return key

    def take(
        self,
        *,
        pool: str = "default",
        lowest_band: int = 2,
        takes_suspect: bool = False,
        is_ready: Callable[[int, bytes, bytes], bool] = lambda shard, lane, key: True,
    ) -> tuple[int, bytes, Queue] | None:
        return self.matcher.first(
            self.matcher.pool(pool), lowest_band, takes_suspect=takes_suspect, is_ready=is_ready
        )

    def serve(self, turns: int, cost: float = 100.0, **how: object) -> Counter[tuple[int, str, str, bool]]:
        """Take and charge, and put another job in its place, so that everyone always has work."""
        count: Counter[tuple[int, str, str, bool]] = Counter()
        for _ in range(turns):
            found = self.take(**how)
            if found is None:
                break
            _, key, queue = found
            lane = keyspace.parse_lane(keyspace.lane_of(key))
            count[lane] += 1
            queue.charge(cost)
            band, tenant, name, suspect = lane
            self.push(band=band, tenant=tenant, queue=name, suspect=suspect)
        return count


@pytest.fixture
def bench():
    return Bench()


def of_band(count: Counter) -> Counter[int]:
    total: Counter[int] = Counter()
    for (band, *_), times in count.items():
        total[band] += times
    return total


# -- bands, tenants, queues ---------------------------------------------------------------------------------


def test_bands_get_their_floors_while_all_have_work(bench):
    for band in Band:
        bench.push(band=band)
    count = of_band(bench.serve(1_700))
    assert count[Band.INTERACTIVE] == pytest.approx(1_000, abs=20)
    assert count[Band.DEFAULT] == pytest.approx(600, abs=20)
    assert count[Band.BULK] == pytest.approx(100, abs=10)


def test_an_idle_band_leaves_its_share_to_others(bench):
    bench.push(band=Band.BULK)
    assert bench.serve(100)[Band.BULK, "t", "q", False] == 100


def test_a_floor_counts_busy_time_and_not_jobs(bench):
    bench.push(band=Band.DEFAULT, tenant="long")
    bench.push(band=Band.DEFAULT, tenant="short")
    served: Counter[str] = Counter()
    for _ in range(1_100):
        _, key, queue = bench.take()
        tenant = keyspace.parse_lane(keyspace.lane_of(key))[1]
        served[tenant] += 1
        queue.charge(1_000.0 if tenant == "long" else 100.0)
        bench.push(tenant=tenant)
    assert served["short"] == pytest.approx(1_000, abs=20)
    assert served["long"] == pytest.approx(100, abs=10)


def test_a_tenant_with_many_queues_gets_no_more_than_one_with_one(bench):
    for number in range(20):
        bench.push(tenant="many", queue=f"q{number}")
    bench.push(tenant="one")
    count = bench.serve(1_000)
    assert count[Band.DEFAULT, "one", "q", False] == pytest.approx(500, abs=5)


def test_a_flood_of_one_tenant_does_not_keep_another_waiting(bench):
    for _ in range(500):
        bench.push(tenant="flood")
    for _ in range(50):
        bench.take()[2].charge(1_000.0)
    late = bench.push(tenant="late")
    taken = []
    for _ in range(2):
        _, key, queue = bench.take()
        queue.charge(1_000.0)
        taken.append(key)
    assert late in taken


def test_a_queue_that_empties_after_each_job_gets_no_more_than_its_share(bench):
    # It never has a second job waiting; what it was charged stays with it all the same.
    bench.push(queue="backlog")
    bench.push(queue="trickle")
    served: Counter[str] = Counter()
    for _ in range(400):
        _, key, queue = bench.take()
        name = keyspace.parse_lane(keyspace.lane_of(key))[2]
        served[name] += 1
        queue.charge(60_000.0)
        bench.push(queue=name)
    assert served == {"backlog": 200, "trickle": 200}


def test_what_a_run_costs_above_its_estimate_is_paid_by_the_queue_that_emptied_meanwhile(bench):
    bench.push(queue="long")
    payer = bench.take()[2]
    assert bench.take() is None  # the queue has left the tree
    payer.charge(1_000.0)  # its run goes on and on
    bench.push(queue="long")
    bench.push(queue="short")
    names = []
    for _ in range(10):
        _, key, queue = bench.take()
        queue.charge(100.0)
        names.append(keyspace.parse_lane(keyspace.lane_of(key))[2])
        bench.push(queue=names[-1])
    assert names == ["short"] * 10


def test_what_is_remembered_of_idle_queues_is_bounded(bench):
    bench.push(queue="steady")
    for number in range(30_000):
        bench.push(queue=f"once-{number}")
        for _ in range(2):
            _, key, queue = bench.take()
            queue.charge(10.0)
            if b"steady" in key:
                bench.push(queue="steady")
    assert len(bench.matcher._queues) < 5_000


def test_what_is_remembered_of_idle_tenants_is_bounded(bench):
    bench.push(tenant="steady")
    for number in range(30_000):
        bench.push(tenant=f"once-{number}")
        for _ in range(2):
            _, key, queue = bench.take()
            queue.charge(10.0)
            if b"steady" in key:
                bench.push(tenant="steady")
    tree = bench.matcher.pool("default").trees[0]
    assert len(tree._tenants) < 5_000


# -- inside a queue ---------------------------------------------------------------------------------------


def test_order_is_by_priority_then_sequence_over_all_shards(bench):
    pushed = [
        bench.push(priority=3, at_ms=30, shard=0),
        bench.push(priority=3, at_ms=10, shard=1),
        bench.push(priority=1, at_ms=40, shard=2),
        bench.push(priority=3, at_ms=20, shard=0),
        bench.push(priority=9, at_ms=5, shard=1),
    ]
    taken = [bench.take()[1] for _ in pushed]
    assert taken == [pushed[2], pushed[1], pushed[3], pushed[0], pushed[4]]


def test_hints_that_no_longer_stand_are_passed_over(bench):
    gone, there = bench.push(), bench.push()
    assert bench.take(is_ready=lambda shard, lane, key: key != gone)[1] == there
    assert bench.take() is None
    assert not bench.matcher.pool("default").has_work()


# -- pools ------------------------------------------------------------------------------------------------


def test_a_queue_goes_to_the_pool_of_its_settings():
    bench = Bench(Settings({"gpu/*": QueueSettings(pool="gpu")}))
    key = bench.push(queue="gpu/a")
    assert bench.take() is None
    assert bench.take(pool="gpu")[1] == key


# -- restricted slots -----------------------------------------------------------------------------------------


def test_a_slot_takes_no_band_less_urgent_than_it_accepts(bench):
    bench.push(band=Band.BULK)
    bench.push(band=Band.DEFAULT)
    assert bench.take(lowest_band=0) is None
    assert keyspace.parse_lane(bench.take(lowest_band=1)[1])[0] == Band.DEFAULT
    assert bench.take(lowest_band=1) is None
    assert keyspace.parse_lane(bench.take(lowest_band=2)[1])[0] == Band.BULK


def test_reserved_slots_do_not_take_the_rest_of_the_pool_away_from_a_band_that_was_idle(bench):
    # Interactive runs on reserved slots far beyond its share; the open slots still belong to the others by weight.
    bench.push(band=Band.INTERACTIVE)
    bench.push(band=Band.DEFAULT)
    for _ in range(500):
        bench.serve(8, lowest_band=0)
        bench.serve(1, lowest_band=2)
    bench.push(band=Band.BULK)
    count = of_band(bench.serve(700, lowest_band=2))
    assert count[Band.DEFAULT] / max(1, count[Band.BULK]) == pytest.approx(6, abs=1)


# -- suspects ---------------------------------------------------------------------------------------------------


def test_a_suspect_goes_only_to_a_slot_that_takes_one(bench):
    key = bench.push(suspect=True)
    assert bench.take() is None
    assert bench.take(takes_suspect=True)[1] == key


def test_suspects_get_at_most_half_of_what_could_run_others(bench):
    bench.push()
    bench.push(suspect=True)
    count = bench.serve(1_000, takes_suspect=True)
    assert count[Band.DEFAULT, "t", "q", True] == pytest.approx(500, abs=2)


def test_suspects_that_come_late_earn_no_credit_from_having_been_absent(bench):
    bench.push()
    bench.serve(1_000, takes_suspect=True)
    bench.push(suspect=True)
    count = bench.serve(100, takes_suspect=True)
    assert count[Band.DEFAULT, "t", "q", True] == pytest.approx(50, abs=2)


def test_a_slot_that_takes_a_suspect_runs_others_when_there_is_none(bench):
    key = bench.push()
    assert bench.take(takes_suspect=True)[1] == key


# -- shards come and go -------------------------------------------------------------------------------------------


def test_keys_of_a_shard_that_went_are_gone_and_those_of_others_stay(bench):
    bench.push(shard=0)
    kept = bench.push(shard=1)
    bench.push(shard=0, queue="other")
    bench.matcher.unload(0)
    assert bench.take()[1] == kept
    assert bench.take() is None


def test_virtual_times_are_forgotten(bench):
    bench.push(tenant="a")
    bench.push(tenant="b")
    for _ in range(5):
        _, key, queue = bench.take()
        tenant = keyspace.parse_lane(keyspace.lane_of(key))[1]
        queue.charge(1e9 if tenant == "a" else 1.0)
        bench.push(tenant=tenant)
    bench.matcher.forget()
    count = bench.serve(100)
    assert count[Band.DEFAULT, "a", "q", False] == 50


def test_suspects_that_come_after_virtual_times_were_forgotten_get_their_half(bench):
    bench.push()
    bench.serve(1_000, takes_suspect=True)
    bench.matcher.forget()
    bench.push(suspect=True)
    count = bench.serve(100, takes_suspect=True)
    assert count[Band.DEFAULT, "t", "q", True] == pytest.approx(50, abs=2)
