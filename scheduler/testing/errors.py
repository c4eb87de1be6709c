"""What the scheduler in memory raises to a test.

JobsError
├── NeverIdle      run or advance would go on for ever: a job resubmits or snoozes itself without end
├── NoResult       ref.result() of a job that ended otherwise, or can't end
└── NoGateway
    └── NoCancelYet    ref.cancel(): this version serves no cancels
"""

from scheduler.client.errors import JobsError, NoGateway


class NeverIdle(JobsError):
    """Raised when one `run` or `advance` has begun more runs than its bound; the message names the types."""


class NoResult(JobsError):
    """Raised by `ref.result()` when the job did not succeed, has no result, or nothing is left that could end it."""


class NoCancelYet(NoGateway):
    """Raised by `ref.cancel()`: requests to dispatchers come with the gateway."""

    def __init__(self) -> None:
        """Say what is missing."""
        super().__init__("cancelling a job")
        self.args = ("cancelling a job is not served in memory yet: it comes with the gateway",)
