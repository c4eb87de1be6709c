"""What the worker's parent needs of the world. `kafka.inbox` implements it; tests and simulations do too."""

from typing import Protocol

import msgspec

from scheduler.core.notices import Notice
from scheduler.core.reports import Report


class Joined(msgspec.Struct, frozen=True):
    """Where this process receives notices, and how many partitions `reports` has."""

    inbox: int
    shards: int


class Received(msgspec.Struct, frozen=True):
    """A notice read from the inbox, of whatever boot id."""

    notice: Notice


class Delivered(msgspec.Struct, frozen=True):
    """Kafka has the report sent under `ticket`."""

    ticket: int


class Undelivered(msgspec.Struct, frozen=True):
    """Kafka does not have the report. `retriable`: the same report may be tried again."""

    ticket: int
    retriable: bool
    why: str


class LinkFailed(msgspec.Struct, frozen=True):
    """The link can't be mended: credentials, a fatal client error. The worker must stop."""

    why: str


LinkEvent = Received | Delivered | Undelivered | LinkFailed


class JoinError(Exception):
    """The topics that a worker needs are not there, or no broker answers. The message says what to do."""


class Link(Protocol):
    """The inbox and the reports of one worker process.

    Reports to one partition arrive in the order sent. `fileno` is readable while `take` has something, so
    that the parent waits for everything at once.
    """

    def join(self, pool: str, boot_id: bytes) -> Joined:
        """Begin to read an inbox of the pool at its end as of now. Raises `JoinError`.

        It may take long while no broker answers; a signal handler that raises ends it within a second or so.
        """

    def fileno(self) -> int:
        """Return a descriptor that is readable while `take` has something to return."""

    def take(self) -> list[LinkEvent]:
        """Return what happened since the last call, in order; never waits."""

    def send(self, ticket: int, partition: int, report: Report) -> None:
        """Send a report; its fate comes from `take` as `Delivered` or `Undelivered`. Never waits."""

    def close(self, timeout_ms: int) -> bool:
        """Send what is still queued, then close; say whether everything was delivered within `timeout_ms`."""


class Clock(Protocol):
    """Where the parent reads time, once per wake-up."""

    def mono_ms(self) -> int:
        """Return milliseconds of a clock that never steps and counts suspended time, if there is one."""
