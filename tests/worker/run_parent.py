"""A worker whose link to Kafka is a connection to the test: `python run_parent.py ADDRESS CONFIG`."""

import faulthandler
import logging
import signal
import sys
from multiprocessing.connection import Client, Connection

import msgspec

from scheduler.codec.job import decode_job
from scheduler.core.reports import Report
from scheduler.worker.clock import SystemClock
from scheduler.worker.parent import Parent, ParentConfig
from scheduler.worker.ports import Joined, LinkEvent, LinkFailed


class TestLink:
    """The link port over a connection; the test decides what is delivered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def join(self, pool: str, boot_id: bytes) -> Joined:
        self._connection.send(("join", pool, boot_id))
        return self._connection.recv()

    def fileno(self) -> int:
        return self._connection.fileno()

    def take(self) -> list[LinkEvent]:
        taken: list[LinkEvent] = []
        try:
            while self._connection.poll(0):
                taken.append(self._connection.recv())
        except (EOFError, OSError):
            taken.append(LinkFailed("the test is gone"))
        return taken

    def send(self, ticket: int, partition: int, report: Report) -> None:
        self._connection.send((ticket, partition, report))

    def close(self, timeout_ms: int) -> bool:
        return True


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    config = msgspec.json.decode(sys.argv[2], type=ParentConfig)
    parent = Parent(
        config, TestLink(Client(sys.argv[1])), SystemClock(), decode_job, lambda line: print(line, flush=True)
    )
    sys.exit(parent.run())


if __name__ == "__main__":
    main()
