"""Which job a free slot gets: the fair tree of each pool, over the ready lanes of all shards held here.

Bands, then tenants, then queues, by virtual time charged with busy time (`fair`); inside a queue the first
by (priority, sequence) over its shards. Suspects, jobs with a loss behind them, stand in a tree of their
own: an offer that takes one chooses between the two trees as between two children of equal weight, so a
wave of suspects never takes more than half of what could run others.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final
from weakref import WeakValueDictionary

from scheduler.core import keyspace
from scheduler.core.fair import Node
from scheduler.core.head import Head, Scan
from scheduler.core.settings import Settings

BAND_WEIGHTS: Final = (50.0, 30.0, 5.0)
"""Floors of interactive, default, bulk in percent of busy time while all have work; idle shares go round."""

_TIDY_AT_LEAST: Final = 64  # a heap of this many entries is not looked through for stale ones


class Queue(Node):
    """One queue of a tenant in a band: a head for each shard that holds ready jobs of it.

    The smallest key of each head stands in a heap, so that a choice among many shards costs no more than among few.
    An entry counts while it still is the smallest key of its head; each head that holds keys has such an entry.
    """

    __slots__ = ("_firsts", "_heads", "_tidy_at", "lane")

    def __init__(self, parent: Node, lane: bytes) -> None:
        """Make an empty queue whose ready keys begin with `lane`."""
        super().__init__(parent)
        self.lane = lane
        self._heads: dict[int, Head] = {}
        self._firsts: list[tuple[bytes, int]] = []
        self._tidy_at = _TIDY_AT_LEAST

    def push(self, shard: int, key: bytes, scan: Scan) -> None:
        """Say that a job became ready; `scan` reads its shard's store."""
        head = self._heads.get(shard)
        if head is None:
            head = self._heads[shard] = Head(self.lane, keyspace.after(self.lane), scan, on_disk=False)
        head.push(key)
        if head.peek() == key:
            self._enter(key, shard)

    def load(self, shard: int, scan: Scan) -> None:
        """Take the jobs that a shard's store holds."""
        head = self._heads[shard] = Head(self.lane, keyspace.after(self.lane), scan, on_disk=True)
        key = head.peek()
        if key is not None:
            self._enter(key, shard)

    def unload(self, shard: int) -> bool:
        """Forget the jobs of a shard; return whether none is left of any other."""
        self._heads.pop(shard, None)
        return not self._heads

    def applied(self, shard: int) -> None:
        """Say that the shard's store now holds the keys pushed."""
        head = self._heads.get(shard)
        if head is not None:
            head.applied()

    def take(self) -> tuple[int, bytes] | None:
        """Take the first job: return its shard and ready key, None if there is none."""
        firsts = self._firsts
        while firsts:
            key, shard = firsts[0]
            head = self._heads.get(shard)
            if head is None or head.peek() != key:
                heappop(firsts)
                continue
            head.pop()
            following = head.peek()
            if following is None:
                heappop(firsts)
            else:
                heapreplace(firsts, (following, shard))
            return shard, key
        return None

    def clear(self) -> None:
        """Forget the jobs of all shards."""
        self._heads.clear()
        self._firsts.clear()

    def _enter(self, key: bytes, shard: int) -> None:
        heappush(self._firsts, (key, shard))
        if len(self._firsts) > self._tidy_at:
            tops = [(head.peek(), shard) for shard, head in self._heads.items()]
            self._firsts = [(top, shard) for top, shard in tops if top is not None]
            heapify(self._firsts)
            self._tidy_at = max(_TIDY_AT_LEAST, 2 * len(self._firsts))


class Tree:
    """Bands, tenants and queues of one pool, suspects or others."""

    def __init__(self, root: Node) -> None:
        """Make the bands below `root`."""
        self._root = root
        self._bands = [Node(root, weight) for weight in BAND_WEIGHTS]
        # Tenants are free text: a node is kept while it stands in its band or a live lease was charged to it.
        self._tenants: WeakValueDictionary[tuple[int, str], Node] = WeakValueDictionary()

    def queue(self, lane: bytes) -> Queue:
        """Make the queue of a lane."""
        band, tenant, _, _ = keyspace.parse_lane(lane)
        node = self._tenants.get((band, tenant))
        if node is None:
            node = self._tenants[band, tenant] = Node(self._bands[band])
        return Queue(node, lane)

    def choose(self, lowest_band: int) -> Queue | None:
        """Return the queue to serve next among bands at least as urgent as `lowest_band`."""
        least: Node | None = None
        band: Node | None = None
        for number, node in enumerate(self._bands):
            if node.active:
                if least is None or node.vtime < least.vtime:
                    least = node
                if number <= lowest_band and (band is None or node.vtime < band.vtime):
                    band = node
        if least is None or band is None:
            return None
        # The time is that of the least band, be this slot for it or not: were it that of a band which runs far
        # ahead on slots of its own, one that was idle would rejoin there and wait for all the others.
        self._root.now = max(self._root.now, least.vtime)
        tenant = band.choose()
        queue = tenant.choose() if tenant else None
        assert isinstance(queue, Queue), "an active band has an active queue"
        return queue

    def forget(self) -> None:
        """Forget virtual times."""
        for node in (*self._bands, *self._tenants.values()):
            node.forget()


class Pool:
    """The two trees of a pool."""

    def __init__(self) -> None:
        """Begin with no work."""
        self._root = Node(None)
        self._sides = (Node(self._root), Node(self._root))
        self.trees = (Tree(self._sides[0]), Tree(self._sides[1]))

    def has_work(self) -> bool:
        """Say whether any queue is active."""
        return self._root.least() is not None

    def choose(self, lowest_band: int, *, takes_suspect: bool) -> Queue | None:
        """Return the queue to serve next with such a slot."""
        first = self._root.choose()  # also moves the time on, at which suspects that come later join
        if not takes_suspect or not self._sides[1].active:
            return self.trees[0].choose(lowest_band)
        order = (1, 0) if first is self._sides[1] else (0, 1)
        for side in order:
            queue = self.trees[side].choose(lowest_band)
            if queue is not None:
                return queue
        return None

    def forget(self) -> None:
        """Forget virtual times."""
        self._root.forget()
        for side, tree in zip(self._sides, self.trees, strict=True):
            side.forget()
            tree.forget()


class Matcher:
    """All ready lanes of the shards held by one dispatcher, by pool."""

    def __init__(self, settings: Settings) -> None:
        """Take the settings that send queues to pools."""
        self._settings = settings
        self.pools: dict[str, Pool] = {}
        self._queues: dict[bytes, Queue] = {}
        self._idle: WeakValueDictionary[bytes, Queue] = WeakValueDictionary()

    def push(self, shard: int, lane: bytes, key: bytes, scan: Scan) -> None:
        """Say that a job became ready; `scan` reads its shard's store."""
        queue = self._queue(lane)
        queue.push(shard, key, scan)
        queue.activate()

    def load(self, shard: int, lanes: Iterable[bytes], scan: Scan) -> None:
        """Take the lanes that a shard's store holds, in place of what was known of it."""
        self.unload(shard)
        for lane in lanes:
            queue = self._queue(lane)
            queue.load(shard, scan)
            queue.activate()

    def unload(self, shard: int) -> None:
        """Forget the lanes of a shard."""
        for queue in list(self._queues.values()):
            if queue.unload(shard):
                self._drop(queue)

    def applied(self, shard: int, lanes: Iterable[bytes]) -> None:
        """Say that the shard's store now holds the keys pushed to these lanes."""
        for lane in lanes:
            queue = self._queues.get(lane)
            if queue is not None:
                queue.applied(shard)

    def first(
        self,
        pool: Pool,
        lowest_band: int,
        *,
        takes_suspect: bool,
        is_ready: Callable[[int, bytes, bytes], bool],
    ) -> tuple[int, bytes, Queue] | None:
        """Take the job that such a slot gets: its shard, ready key and queue.

        Keys are hints; those for which `is_ready(shard, lane, key)` is false are dropped on the way.
        """
        while (queue := pool.choose(lowest_band, takes_suspect=takes_suspect)) is not None:
            first = queue.take()
            if first is None:
                self._drop(queue)
                continue
            shard, key = first
            if is_ready(shard, queue.lane, key):
                return shard, key, queue
        return None

    def forget(self) -> None:
        """Forget virtual times: they are estimates of a life that ended."""
        for pool in self.pools.values():
            pool.forget()
        for queue in (*self._queues.values(), *self._idle.values()):
            queue.forget()

    def _queue(self, lane: bytes) -> Queue:
        queue = self._queues.get(lane)
        if queue is None:
            idle = self._idle.get(lane)
            queue = self._queues[lane] = self._new_queue(lane) if idle is None else idle
        return queue

    def _new_queue(self, lane: bytes) -> Queue:
        _, _, name, suspect = keyspace.parse_lane(lane)
        return self.pool(self._settings.queue(name).pool).trees[suspect].queue(lane)

    def pool(self, name: str) -> Pool:
        """Return the pool `name`."""
        pool = self.pools.get(name)
        if pool is None:
            pool = self.pools[name] = Pool()
        return pool

    def _drop(self, queue: Queue) -> None:
        # It was chosen, so its virtual time is its tenant's, where a new one would begin too. But live leases
        # may still be charged to it; while there are any, it comes back with what they cost.
        queue.deactivate()
        queue.clear()
        del self._queues[queue.lane]
        self._idle[queue.lane] = queue
