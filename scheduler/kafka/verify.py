"""Does the cluster look as the layout says? Pure; needs what DESCRIBE tells, nothing more."""

from collections import Counter
from typing import Final

import msgspec

from scheduler.kafka.admin import ObservedCluster, ObservedTopic
from scheduler.kafka.layout import DEFAULT_PREFIX, LEASES, SHARED, Layout, Topic


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not as it should be; `topic` with prefix. `fatal`: nothing starts until it is mended."""

    topic: str
    setting: str
    wanted: str
    found: str
    fatal: bool

    def __str__(self) -> str:
        """Return one line of a diff."""
        level = "FAIL" if self.fatal else "WARN"
        return f"{level}  {self.topic}  {self.setting}: {self.found}, wanted {self.wanted}"


class LayoutError(Exception):
    """The topics are not as the system needs them; the message is the diff."""

    def __init__(self, differences: list[Difference]) -> None:
        """Keep the differences."""
        lines = "\n".join(str(each) for each in differences)
        super().__init__(f"the topics are not as they must be:\n{lines}")
        self.differences = differences


def layout_of(
    cluster: ObservedCluster, *, prefix: str = DEFAULT_PREFIX, replication_factor: int | None = None
) -> Layout:
    """Return the layout that the topics of a cluster most likely came from.

    The shard count is the one that most shared topics have, so that a single one that was altered stands out.
    Raises `LayoutError` if there are no topics of ours at all.
    """
    counts = Counter(cluster.topics[name].partitions for name in SHARED if name in cluster.topics)
    if not counts:
        missing = Difference(
            prefix + "*", "topics", "those that 'scheduler topics apply' creates", "none", fatal=True
        )
        raise LayoutError([missing])
    leases = {
        name.removeprefix(LEASES): topic.partitions
        for name, topic in cluster.topics.items()
        if name.startswith(LEASES)
    }
    copies = replication_factor or min(topic.replication_factor for topic in cluster.topics.values())
    return Layout(counts.most_common(1)[0][0], leases, copies, prefix)


def compare(layout: Layout, cluster: ObservedCluster) -> list[Difference]:
    """Return every difference, in the layout's order; topics that only the cluster has are left alone."""
    found: list[Difference] = []
    for topic in layout.topics():
        observed = cluster.topics.get(topic.name)
        full = layout.prefix + topic.name
        if observed is None:
            found.append(Difference(full, "topic", f"{topic.partitions} partitions", "missing", fatal=True))
        else:
            found += _topic_differences(full, topic, observed, layout)
    if not layout.leases:
        found.append(
            Difference(layout.prefix + LEASES + "*", "topic", "one for each pool", "missing", fatal=True)
        )
    return found


def require(layout: Layout, cluster: ObservedCluster) -> list[Difference]:
    """Return the warnings. Raises `LayoutError` if any difference is fatal: a start-up check."""
    found = compare(layout, cluster)
    if any(each.fatal for each in found):
        raise LayoutError(found)
    return found


_FATAL_CONFIGS: Final = ("cleanup.policy", "message.timestamp.type")
_RETENTIONS: Final = ("retention.ms", "retention.bytes", "delete.retention.ms")
_FOREVER: Final = -1


def _topic_differences(full: str, topic: Topic, observed: ObservedTopic, layout: Layout) -> list[Difference]:
    found = []
    if observed.partitions != topic.partitions:
        wanted, is_now = str(topic.partitions), str(observed.partitions)
        found.append(Difference(full, "partitions", wanted, is_now, fatal=topic.counted))
    for name in _FATAL_CONFIGS:
        if observed.configs.get(name) != topic.configs[name]:
            is_now = observed.configs.get(name, "unknown")
            found.append(Difference(full, name, topic.configs[name], is_now, fatal=True))
    found += [each for name in _RETENTIONS if (each := _retention(full, name, topic, observed)) is not None]
    found += _size(full, topic, observed)
    found += _copies(full, observed, layout)
    found += _elections(full, observed)
    return found


def _retention(full: str, name: str, topic: Topic, observed: ObservedTopic) -> Difference | None:
    """What is kept until it is consumed may have no limit at all; elsewhere only a shorter one is worth a word."""
    if name not in topic.configs:
        return None
    wanted, found = int(topic.configs[name]), int(observed.configs.get(name, "0"))
    longer = found == _FOREVER or (wanted != _FOREVER and found > wanted)
    if found == wanted or longer:
        return None
    fatal = topic.configs.get("retention.ms") == str(_FOREVER)
    return Difference(full, name, topic.configs[name], str(found), fatal=fatal)


def _size(full: str, topic: Topic, observed: ObservedTopic) -> list[Difference]:
    wanted, found = (
        int(topic.configs["max.message.bytes"]),
        int(observed.configs.get("max.message.bytes", "0")),
    )
    if found >= wanted:
        return []
    return [Difference(full, "max.message.bytes", str(wanted), str(found), fatal=found < topic.needed_bytes)]


def _copies(full: str, observed: ObservedTopic, layout: Layout) -> list[Difference]:
    found = []
    copies, insync = observed.replication_factor, int(observed.configs.get("min.insync.replicas", "1"))
    if copies < layout.replication_factor:
        found.append(
            Difference(full, "replication factor", str(layout.replication_factor), str(copies), fatal=False)
        )
    if insync > copies:
        # Kafka accepts it, and then refuses every record.
        found.append(Difference(full, "min.insync.replicas", f"at most {copies}", str(insync), fatal=True))
    elif insync == copies > 1:
        wanted = f"{copies - 1}, so that one broker may be away"
        found.append(Difference(full, "min.insync.replicas", wanted, str(insync), fatal=False))
    elif insync == 1 and copies > 2:
        wanted = "2: with 1 an acknowledged record may exist once"
        found.append(Difference(full, "min.insync.replicas", wanted, "1", fatal=False))
    return found


def _elections(full: str, observed: ObservedTopic) -> list[Difference]:
    """A leader that lags behind takes acknowledged records away, and nobody can tell which."""
    name = "unclean.leader.election.enable"
    if observed.configs.get(name) != "true":
        return []
    return [Difference(full, name, "false: an acknowledged record may vanish", "true", fatal=False)]
