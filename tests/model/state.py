"""What the model knows at one moment: a job, the log, worker processes and two dispatchers.

All of it is tuples, so a state can be the key of a table. There is no clock: times are ages, or what is left of a
period, by the clock of the process that counts them, and they stop where going on would change nothing. So clocks may
begin anywhere, and a search that comes to its end has covered all time.
"""

from typing import NamedTuple

from scheduler.core.job import Ending, Phase

# Plain strings: to hash a member of an enumeration costs more than a step of the model.
READY, LEASED = str(Phase.READY), str(Phase.LEASED)
SUCCEEDED, CANCELLED = str(Phase.SUCCEEDED), str(Phase.CANCELLED)
ENDED = (SUCCEEDED, CANCELLED)
TIMEOUT, CANCEL = str(Ending.TIMEOUT), str(Ending.CANCEL)

BEAT, DONE, FAIL, RELEASE, ECHO = "beat", "done", "fail", "release", "echo"
LEASE, REVOKE = "lease", "revoke"
ABSENT, UP, STOPPED, DEAD = "absent", "up", "stopped", "dead"
ADOPTING, ACTIVE = "adopting", "active"
NO_ACK = -1


class Job(NamedTuple):
    """The job's state, as the changelog has it or a dispatcher's memory.

    `retrying` is left out: it is `ready` before its time, and a job that is ready may wait as well.
    """

    phase: str = READY
    epoch: int = 0
    worker: int = -1  # whom the latest lease names
    offer_age: int = 0  # since that worker sent the offer which the lease answers
    ending: str = ""
    cancel_read: bool = False
    completed: tuple[int, ...] = ()  # epochs whose `done` was accepted


class Report(NamedTuple):
    """A record of the log. An echo has its owner for worker, and its sequence for epoch."""

    kind: str
    worker: int
    epoch: int


class Sending(NamedTuple):
    """A report that Kafka does not have yet."""

    kind: str
    epoch: int
    age: int = 0  # of a beat of the run


class Notice(NamedTuple):
    """A lease or a revoke for one worker process: `worker` stands for its boot id."""

    kind: str
    worker: int
    epoch: int
    offer_age: int = 0


class Worker(NamedTuple):
    """A worker process with one slot."""

    life: str = UP
    run: int = 0  # the epoch that runs here
    left: int = 0  # until the run's deadline
    ended: int = 0  # the highest epoch remembered to have ended here
    ended_age: int = 0
    ack: int = NO_ACK  # how long ago the beat was sent whose acknowledgement is under way
    outbox: tuple[Sending, ...] = ()
    inbox: tuple[Notice, ...] = ()


class Renewal(NamedTuple):
    """The entry of a lease in the renewal table."""

    epoch: int
    age: int  # since the last renewal was read, or the grant made
    period: int


class Turn(NamedTuple):
    """A turn that has decided and not committed; what it decided is in the dispatcher's memory."""

    decisions: int
    notices: tuple[Notice, ...]
    timer_only: bool
    outlives: bool = False  # nobody ended its transaction when the shard went to a successor


class Dispatcher(NamedTuple):
    """A dispatcher process, as far as it has to do with the shard."""

    stage: str = ""  # empty: it does not hold it
    job: Job = Job()
    position: int = 0  # in the log
    renewal: Renewal | tuple[()] = ()
    sequence: int = 0  # of its last echo
    awaits: bool = False  # that echo has not come back
    proves: bool = False  # and was produced a whole period after the last renewal was read
    echoes: tuple[int, ...] = ()  # sent, not in the log yet
    offers: tuple[int, ...] = ()  # whose offers are known; only without `offers_repeated`
    turn: Turn | tuple[()] = ()


class Faults(NamedTuple):
    """What may happen and need not, and how often; in a state: how often still."""

    stops: int = 0  # a worker's parent process is stopped, and goes on later
    kills: int = 0
    replacements: int = 0  # another process of the first worker's name: same inbox, another boot id
    losses: int = 0  # a beat or a notice never arrives
    delays: int = 0  # a notice arrives behind others, though it was committed before them
    aborts: int = 0
    takeovers: int = 0
    timeouts: int = 0
    failures: int = 0
    drains: int = 0
    cancels: int = 0


class State(NamedTuple):
    """Everything."""

    job: Job  # in the changelog
    position: int  # committed with it
    owner: int
    log: tuple[Report, ...]
    workers: tuple[Worker, ...]
    dispatchers: tuple[Dispatcher, Dispatcher]
    held_up: tuple[Notice, ...]  # committed, and in no inbox yet
    started: int  # the highest epoch that any process has started
    cancel_asked: bool
    since_slip: int  # ticks since worker clocks lost one, if they drift
    can: Faults

    def with_dispatcher(self, number: int, me: Dispatcher) -> "State":
        """Return the state with another value of one dispatcher."""
        first, second = self.dispatchers
        return self._replace(dispatchers=(first, me) if number else (me, second))


class Step(NamedTuple):
    """One thing that may happen next. `%s` in its text is the worker's name."""

    text: str
    state: State
    worker: int = -1
    fault: str = ""  # which of `Faults` it uses up
    run_ends: str = ""  # how a run ends by it without having been asked to


BY_ITSELF = "its handler ends"
AT_DEADLINE = "its deadline passes"
