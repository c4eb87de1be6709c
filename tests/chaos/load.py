"""The load: a process that submits through the public client, and writes down what it wants and which receipts it got.

    python -m tests.chaos.load RATE SEED

A job counts as accepted once its receipt stands in the ledger. Whatever fails is tried again under the same id, and
some jobs are submitted twice on purpose. SIGTERM ends it when everything that it began has a receipt.
"""

import os
import random
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from scheduler import SubmitError
from scheduler.client.request import Request
from tests.chaos import app as jobs
from tests.chaos.app import FOLDER
from tests.chaos.ledger import Ledger

EVERY_S: Final = 0.25
REPEATED: Final = 0.03
PRIORITIES: Final = ("interactive", "default", "default", "bulk")
TENANTS: Final = ("shop", "billing", "partner")


class Load:
    """What is still without a receipt, and the ledger of the rest."""

    def __init__(self, rate: float, chance: random.Random, ledger: Ledger) -> None:
        self._rate = rate
        self._chance = chance
        self._ledger = ledger
        self._open: deque[Request[Any]] = deque()
        self._again: list[Request[Any]] = []

    def run(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            self._begin(max(1, round(self._rate * EVERY_S)))
            self._send()
        while self._open:
            self._send()

    def _begin(self, count: int) -> None:
        fresh = [self._request() for _ in range(count)]
        for request in fresh:
            wanted = {"job": request.id, "type": request.spec.type, "run_at_ms": request.spec.run_at_ms}
            self._ledger.write({"what": "wanted", **wanted})
        self._open += [*fresh, *self._again]
        self._again = [request for request in fresh if self._chance.random() < REPEATED]

    def _send(self) -> None:
        sending, self._open = list(self._open), deque()
        try:
            accepted = jobs.app.submit_many(sending)
        except SubmitError as error:
            accepted = error.acknowledged
            self._open += error.remaining
            time.sleep(EVERY_S)
        for ref in accepted:
            self._ledger.write({"what": "receipt", "job": ref.id})
        known = {ref.id for ref in accepted} | {request.id for request in self._open}
        self._open += [request for request in sending if request.id not in known]

    def _request(self) -> Request[Any]:
        chance = self._chance
        terms: dict[str, Any] = {"tenant": chance.choice(TENANTS), "priority": chance.choice(PRIORITIES)}
        match chance.choices(KINDS, SHARES)[0]:
            case "later":
                delay = f"{chance.randint(1_000, 20_000)}ms"
                return jobs.quick.options(**terms, delay=delay).request()
            case "quick":
                return jobs.quick.options(**terms).request(chance.randint(1, 60))
            case "long":
                return jobs.long.options(**terms).request(chance.uniform(11, 16))
            case "deaf":
                return jobs.deaf.options(**terms).request(chance.uniform(11, 14))
            case kind:
                return getattr(jobs, kind).options(**terms).request()


KINDS: Final = ("quick", "later", "flaky", "patient", "hopeless", "parent", "long", "deaf")
SHARES: Final = (58, 14, 8, 5, 3, 10, 1, 1)


def main() -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    ledger = Ledger(Path(os.environ[FOLDER]) / "receipts")
    print("load ready: submitting", flush=True)
    Load(float(sys.argv[1]), random.Random(sys.argv[2]), ledger).run(over)


if __name__ == "__main__":
    main()
