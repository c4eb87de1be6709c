"""`JobRef`: a submitted job, its receipt, and the questions one may ask about it."""

from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from scheduler.client.durations import Duration, duration_ms
from scheduler.client.errors import NoGateway
from scheduler.core import bounds

R = TypeVar("R")


class Receipt(NamedTuple):
    """Where Kafka has the job record."""

    topic: str
    partition: int
    offset: int


class Inquiries(Protocol):
    """Who answers questions about jobs: the gateway, or the scheduler in memory of `scheduler.testing`."""

    def state(self, job_id: str) -> str:
        """Return `accepted`, `scheduled`, `ready`, ... `succeeded`."""

    def attempts(self, job_id: str) -> int:
        """Return how many attempts are used."""

    def result(self, job_id: str, timeout_s: float | None) -> Any:
        """Wait for the end and return the result; raise if the job did not succeed or `timeout_s` passed."""

    def cancel(self, job_id: str) -> None:
        """Ask for the job to be cancelled."""


class NoInquiries:
    """Answers nothing: there is no gateway yet."""

    def state(self, job_id: str) -> str:
        """Raise `NoGateway`."""
        raise NoGateway("reading a state", _HOW_JOBS_END)

    def attempts(self, job_id: str) -> int:
        """Raise `NoGateway`."""
        raise NoGateway("reading attempts", _HOW_JOBS_END)

    def result(self, job_id: str, timeout_s: float | None) -> Any:
        """Raise `NoGateway`."""
        raise NoGateway(
            "reading a result",
            "Let the handler publish what others need: ctx.emit(Message(topic, value)). "
            "In a test, the fixture 'jobs' answers",
        )

    def cancel(self, job_id: str) -> None:
        """Raise `NoGateway`."""
        raise NoGateway("cancelling a job", "A job that may get too old can be submitted with expires_in")


_HOW_JOBS_END: Final = (
    "How jobs end is published on the topic 'lifecycle'. In a test, the fixture 'jobs' answers"
)

NO_INQUIRIES: Final = NoInquiries()


class JobRef(Generic[R]):
    """A job that Kafka has. Two refs are equal if they name the same job."""

    __slots__ = ("_inquiries", "_offset", "_partition", "_topic", "id")

    def __init__(
        self, job_id: str, topic: str, partition: int, offset: int, inquiries: Inquiries = NO_INQUIRIES
    ) -> None:
        """Take the id, where the record is, and whom to ask."""
        self.id = job_id
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._inquiries = inquiries

    @property
    def receipt(self) -> Receipt:
        """Topic, partition and offset of the job record: whoever has it knows that Kafka has the job."""
        return Receipt(self._topic, self._partition, self._offset)

    @property
    def state(self) -> str:
        """The job's state. Outside tests this version can't tell: `NoGateway`."""
        return self._inquiries.state(self.id)

    @property
    def attempts(self) -> int:
        """How many attempts are used. Outside tests this version can't tell: `NoGateway`."""
        return self._inquiries.attempts(self.id)

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the job's end, at most for `timeout`, and return its result. Outside tests: `NoGateway`."""
        timeout_s = None if timeout is None else duration_ms(timeout) / bounds.SECOND_MS
        answer: R = self._inquiries.result(self.id, timeout_s)
        return answer

    def cancel(self) -> None:
        """Ask for the job to be cancelled. This version can't: `NoGateway`."""
        self._inquiries.cancel(self.id)

    def landed_at(self, offset: int) -> None:
        """Note the offset that the acknowledgement told; for the submitter."""
        self._offset = offset

    def __eq__(self, other: object) -> bool:
        """Say whether `other` names the same job."""
        return isinstance(other, JobRef) and self.id == other.id

    def __hash__(self) -> int:
        """Hash by id."""
        return hash(self.id)

    def __repr__(self) -> str:
        """Show the id and where the record is."""
        return f"JobRef({self.id!r}, {self._topic}/{self._partition}@{self._offset})"
