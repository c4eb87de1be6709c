"""Reports on their way: which ticket stands for what, and which must be tried again."""

from collections import deque
from typing import Final

import msgspec

from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Checkpoint, Done, Fail, Offer, Release, Report, Verdict
from scheduler.worker.actions import SendReport
from scheduler.worker.offers import NEVER

CARRIES_A_RUN: Final = (Done, Fail, Release, Checkpoint)
"""Reports that are tried again until Kafka has them."""


class Mail(msgspec.Struct, frozen=True):
    """A report that was handed to the link. `runs` and `number` say what it carries for whom."""

    ticket: int
    partition: int
    report: Report
    sent_ms: int
    runs: tuple[int, ...] = ()
    number: int = 0


class Outbox:
    """Numbers reports, and keeps those whose fate is open."""

    def __init__(self) -> None:
        """Begin with none."""
        self._ticket = 0
        self._open: dict[int, Mail] = {}
        self._later: deque[tuple[int, Mail]] = deque()

    def __len__(self) -> int:
        """Return how many reports must still be confirmed; offers and beats need not be."""
        return len(self._later) + sum(
            1 for mail in self._open.values() if isinstance(mail.report, CARRIES_A_RUN)
        )

    def send(
        self, partition: int, report: Report, now_ms: int, runs: tuple[int, ...] = (), number: int = 0
    ) -> SendReport:
        """Return the action that sends a report."""
        self._ticket += 1
        self._open[self._ticket] = Mail(self._ticket, partition, report, now_ms, runs, number)
        return SendReport(self._ticket, partition, report)

    def put_off(self, mail: Mail, until_ms: int) -> None:
        """Keep an undelivered report for later, without the slot that it freed: that is offered anew."""
        report = mail.report
        if isinstance(report, Done | Fail | Release) and report.freed is not None:
            mail = msgspec.structs.replace(mail, report=msgspec.structs.replace(report, freed=None))
        self._later.append((until_ms, mail))

    def due(self, now_ms: int) -> list[Mail]:
        """Take the reports whose time has come."""
        found: list[Mail] = []
        while self._later and self._later[0][0] <= now_ms:
            found.append(self._later.popleft()[1])
        return found

    def next_ms(self) -> int:
        """Return when `due` has something next."""
        return self._later[0][0] if self._later else NEVER

    def instead(self, mail: Mail, why: str, now_ms: int) -> SendReport | None:
        """Return the action that sends a small report in place of a completion that Kafka refuses for good."""
        done = mail.report
        if not isinstance(done, Done):
            return None
        error = ErrorInfo("ReportRefused", f"Kafka refused the completion: {why}")
        verdict = Verdict.FAIL
        report = Fail(done.sender, done.job_id, done.epoch, done.token, verdict, done.run_ms, error=error)
        return self.send(mail.partition, report, now_ms)

    def settle(self, ticket: int) -> Mail | None:
        """Take the report whose fate is known now; None if it was settled before."""
        return self._open.pop(ticket, None)

    def oldest_offer_ms(self) -> int | None:
        """Return when the oldest offer was sent that Kafka has not confirmed, None if there is none."""
        return next((mail.sent_ms for mail in self._open.values() if isinstance(mail.report, Offer)), None)
