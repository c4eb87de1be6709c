"""Which decisions may wait a little for others to share a transaction with.

A transaction costs the same few milliseconds whatever it carries, and no turn is taken meanwhile. At low rates a
job would have two: one that grants it, one for its end. But nobody waits for the second: the worker's slot counts
as free once its report is read, and the report stays in Kafka until the end has committed.
"""

from scheduler.core.changes import Changes
from scheduler.core.job import ENDED, LEASED
from scheduler.core.outputs import Lifecycle


def can_wait(changes: Changes) -> bool:
    """Say whether all that was decided is that leased jobs have ended, and nothing leaves but the tale of that.

    Whatever anybody waits for makes it untrue: a notice, an admission, a retry, a dead letter, a command, something
    emitted, and what is marked as durable (a repeated submit, a careful shard's next try).
    """
    if changes.durable or changes.notices:
        return False
    if not all(isinstance(output, Lifecycle) for output in changes.outputs):
        return False
    read = changes.read
    for job_id, new in changes.states.items():
        old = read[job_id]
        if new is None or new.phase not in ENDED or old is None or old.phase is not LEASED:
            return False
    return True
