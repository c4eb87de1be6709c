"""What the demo submits: a few thousand mixed jobs, spread over some seconds, and what is expected of each."""

import random
import time
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.bench.demo_jobs import (
    app,
    build_report,
    crash,
    deliver,
    deliver_to_gone,
    deliver_to_nobody,
    place_order,
    send_email,
)
from scheduler.bench.judge import Expected
from scheduler.bench.third_party import ThirdParty
from scheduler.client.options import Priority
from scheduler.client.request import Request

TENANTS: Final = ("shop", "outlet", "billing", "partner", "internal")
PRIORITIES: Final[tuple[Priority, ...]] = ("interactive", "default", "default", "bulk")
BATCHES: Final = 60
_LEAST_JOBS: Final = 200


def kinds(jobs: int, chance: random.Random) -> list[Callable[[], Request[object]]]:
    """Return what makes each of `jobs` requests, in a random order: mostly quick ones, all kinds present."""

    def some(share: float) -> int:
        return max(1, int(jobs * share))

    made = [
        *[lambda: deliver.options(tenant="shop").request("https://flaky.example")] * some(0.05),
        *[lambda: deliver_to_nobody.options(tenant="outlet").request("https://nobody.example")] * some(0.01),
        *[lambda: deliver_to_gone.options(tenant="outlet").request("https://gone.example")] * some(0.01),
        *[lambda: build_report.options(tenant="billing", priority="bulk").request(5)] * some(0.03),
        *[lambda: place_order.options(tenant="shop", priority="interactive").request("ann@example.com")]
        * some(0.04),
        *[lambda: _later(chance)] * some(0.1),
        lambda: crash.options(tenant="internal").request("/poison.png"),
    ]
    made += [lambda: _email(chance)] * max(0, jobs - len(made))
    chance.shuffle(made)
    return made  # type: ignore[return-value]


def submit_all(
    jobs: int, third_party: ThirdParty, seconds: float, expected: dict[str, Expected]
) -> Iterator[float]:
    """Submit everything over about `seconds`, filling `expected`; yield the share that is submitted after each batch."""
    chance = random.Random(17)
    made = kinds(max(jobs, _LEAST_JOBS), chance)
    size = -(-len(made) // BATCHES)
    began = time.monotonic()
    for n in range(0, len(made), size):
        requests = [make() for make in made[n : n + size]]
        now_ms = time.time_ns() // 1_000_000
        for ref, request in zip(app.submit_many(requests), requests, strict=True):
            expected[ref.id] = Expected(now_ms, request.spec.run_at_ms)
        partner = third_party.good("demo.send_email", {"to": f"partner-{n}@example.com"})
        expected[partner] = Expected(now_ms)
        if n == 0:
            third_party.broken()
        share = min(1.0, (n + size) / len(made))
        yield share
        time.sleep(max(0.0, began + seconds * share - time.monotonic()))


def _email(chance: random.Random) -> Request[str]:
    priority = chance.choice(PRIORITIES)
    return send_email.options(tenant=chance.choice(TENANTS), priority=priority).request("ann@example.com")


def _later(chance: random.Random) -> Request[str]:
    delay = f"{chance.randint(1_000, 12_000)}ms"
    return send_email.options(tenant=chance.choice(TENANTS), delay=delay).request("bob@example.com")
