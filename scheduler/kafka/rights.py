"""Who may do what: the users of an installation and their rights, no more than each needs. Pure.

An operation to read, write or delete implies to describe, as Kafka's own authorizer has it; the others imply nothing.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.core.inputs import RETRIES, SUBMITS, TOPIC_OF, Input
from scheduler.kafka.foreign_names import kubernetes_name
from scheduler.kafka.layout import CHANGELOG, COORDINATOR_LOG, LEASES, Layout

READ: Final = "Read"
WRITE: Final = "Write"
DELETE: Final = "Delete"
CREATE: Final = "Create"
DESCRIBE: Final = "Describe"
DESCRIBE_CONFIGS: Final = "DescribeConfigs"


class Right(msgspec.Struct, frozen=True):
    """Operations on one resource of Kafka, or on all whose names begin with `name`."""

    resource: str  # `topic`, `group` or `transactionalId`
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


class User(msgspec.Struct, frozen=True):
    """One principal, `User:` and its name. `purpose` is a sentence for whoever reads the export."""

    name: str
    purpose: str
    rights: tuple[Right, ...]


def users(layout: Layout, emits: Iterable[str] = ()) -> tuple[User, ...]:
    """Return the users: the dispatchers, the workers of each pool, clients, and who creates the topics.

    `emits` are topics, full names, to which settings let runs publish: dispatchers do that for them. Raises
    `ValueError` if two pools would share a user.
    """
    found = (
        _dispatcher(layout, emits),
        *(_worker(layout, pool) for pool in layout.leases),
        _client(layout),
        _operator(layout),
    )
    names = [user.name for user in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        pools = ", ".join(layout.leases)
        raise ValueError(f"pools {pools}: two of them would share the user {twice[0]}; rename one")
    return found


def user_name(layout: Layout, role: str) -> str:
    """Return a name that Kafka and Kubernetes take: `jobs.worker-default`. The prefix tells installations apart."""
    return kubernetes_name(layout.prefix + role)


def _dispatcher(layout: Layout, emits: Iterable[str]) -> User:
    """Read and delete inputs, write what turns decide; look at every topic at start."""
    prefix = layout.prefix
    topics = [topic.name for topic in layout.topics() if not topic.name.startswith(LEASES)]
    return User(
        user_name(layout, "dispatcher"),
        "dispatchers",
        (
            *(Right("topic", prefix + name, (*_of_dispatcher(name), DESCRIBE_CONFIGS)) for name in topics),
            Right("topic", prefix + LEASES, (WRITE, DESCRIBE_CONFIGS), prefixed=True),
            *(Right("topic", name, (WRITE,)) for name in sorted(emits)),
            Right("group", f"{prefix}dispatcher", (READ,)),
            # How the transactions of a dead owner ended, where the brokers have lost markers of them.
            Right("topic", COORDINATOR_LOG, (READ,)),
            # Any dispatcher's, since a successor ends what a dead owner left open.
            Right("transactionalId", f"{prefix}dispatcher.", (WRITE,), prefixed=True),
        ),
    )


def _of_dispatcher(topic: str) -> tuple[str, ...]:
    is_input = topic in TOPIC_OF.values()
    reads = (READ,) if is_input or topic == CHANGELOG else ()
    writes = (WRITE,) if topic in _WRITTEN else ()
    deletes = (DELETE,) if is_input else ()
    return (*reads, *writes, *deletes) or (DESCRIBE,)


_WRITTEN: Final = frozenset((
    *(TOPIC_OF[source] for source in (Input.REPORTS, Input.COMMANDS, *RETRIES)), CHANGELOG, "dlq", "lifecycle",
))  # fmt: skip


def _worker(layout: Layout, pool: str) -> User:
    return User(
        user_name(layout, f"worker-{pool}"),
        f"workers of the pool {pool}; handlers that submit jobs need the client's rights, too",
        (
            Right("topic", layout.prefix + LEASES + pool, (READ,)),
            Right("topic", layout.prefix + TOPIC_OF[Input.REPORTS], (WRITE,)),
        ),
    )


def _client(layout: Layout) -> User:
    return User(
        user_name(layout, "client"),
        "who submits jobs",
        tuple(Right("topic", layout.prefix + TOPIC_OF[source], (WRITE,)) for source in SUBMITS),
    )


def _operator(layout: Layout) -> User:
    """Run `scheduler topics` and `scheduler schema check`, and look at dead letters."""
    prefix = layout.prefix
    return User(
        user_name(layout, "operator"),
        "who runs 'scheduler topics' and 'scheduler schema check', and reads what was submitted and what died",
        (
            *(Right("topic", prefix + topic.name, _of_operator(topic.name)) for topic in layout.topics()),
            Right("transactionalId", f"{prefix}topics-apply", (WRITE,)),
        ),
    )


def _of_operator(topic: str) -> tuple[str, ...]:
    """Create and compare all; the first `meta` of each shard is written, unless one is found."""
    looks = topic in _LOOKED_AT or topic == CHANGELOG
    return (
        *((READ,) if looks else (DESCRIBE,)),
        *((WRITE,) if topic == CHANGELOG else ()),
        CREATE,
        DESCRIBE_CONFIGS,
    )


_LOOKED_AT: Final = frozenset((*(TOPIC_OF[source] for source in SUBMITS), "dlq", "lifecycle"))
