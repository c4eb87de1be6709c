"""What submitting and asking raise, grouped by what the caller must do.

JobsError
├── SubmitError
│   ├── InvalidJob       never retry: the job, an option or the code is wrong    (also a ValueError)
│   ├── NotSubmitted     Kafka does not have it: retry as you like
│   └── SubmitUnknown    Kafka may have it: retry under the id that the error carries
└── NoGateway            nothing is wrong with the job: this version can't answer, the message says what to do instead
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.client.reference import JobRef
    from scheduler.client.request import Request


class JobsError(Exception):
    """Root of everything that this package raises on purpose."""

    __module__ = "scheduler"


class SubmitError(JobsError):
    """Root of what submitting raises.

    A bulk submit stops at the first trouble. Then `acknowledged` are the jobs that Kafka has and `remaining` the
    requests that were taken and may be lost; these can be submitted again as they are, since each keeps its id. What
    the iterable had not yielded yet is still the caller's. Both are empty for a single job.
    """

    __module__ = "scheduler"

    acknowledged: "list[JobRef[Any]]"
    remaining: "list[Request[Any]]"

    def __init__(self, *args: object) -> None:
        """Begin with empty lists."""
        super().__init__(*args)
        self.acknowledged = []
        self.remaining = []


class InvalidJob(SubmitError, ValueError):
    """Raised before anything is sent when a job can't be right, and when a broker refuses a record for good."""

    __module__ = "scheduler"


class NotSubmitted(SubmitError):
    """Raised when Kafka does not have the job: no broker answered, the topic is missing, the queue stayed full."""

    __module__ = "scheduler"


class SubmitUnknown(SubmitError):
    """Raised when the job was sent and no acknowledgement came: it may run. `job_id` is the id to use again."""

    __module__ = "scheduler"

    def __init__(self, job_id: str, reason: str) -> None:
        """Keep the id; `reason` is why nothing is known, for example `no acknowledgement within 10 s`."""
        super().__init__(job_id, reason)
        self.job_id = job_id
        self.reason = reason

    def __str__(self) -> str:
        """Return the message with the id and what to do with it."""
        return (
            f"SubmitUnknown(job_id={self.job_id!r}): sent, but {self.reason}. It may run. "
            "Submit again with the same id to be sure: options(job_id=e.job_id)"
        )


class NoGateway(JobsError):
    """Raised by questions about a job: they need the gateway, which this version does not have.

    `doing` is what was asked for, `instead` a sentence that says how to do without.
    """

    __module__ = "scheduler"

    def __init__(self, doing: str, instead: str = "") -> None:
        """Say both."""
        super().__init__(f"{doing} is not possible in this version, which has no gateway. {instead}".rstrip())
