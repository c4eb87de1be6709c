"""How a command ends: the exit codes, and an exception for each failure.

0 done · 1 failed, or something is wrong · 2 usage · 3 not found · 4 partly done · 5 unavailable or timed out ·
130 interrupted

Failed
├── NotFound      3
├── PartlyDone    4
└── Unavailable   5

Each is raised with one sentence that says what to do; click prints it as ``Error: ...`` on standard error.
"""

import click

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
PARTLY_DONE = 4
UNAVAILABLE = 5
INTERRUPTED = 130


class Failed(click.ClickException):
    """The command could not do what it was asked, or found something wrong."""

    exit_code = FAILED


class NotFound(Failed):
    """What the command was asked about does not exist."""

    exit_code = NOT_FOUND


class PartlyDone(Failed):
    """Some of the things asked for were done; the message says which were not."""

    exit_code = PARTLY_DONE


class Unavailable(Failed):
    """Kafka, or something else that the command needs, did not answer in time."""

    exit_code = UNAVAILABLE
