"""A fair choice among children: least virtual time first, charged with busy time over weight.

Start-time fair queueing over a tree (Goyal, Vin, Cheng, SIGCOMM 1996), with busy time in place of packet
length. A node that was idle rejoins at its parent's current virtual time, so idling earns no credit; a
refund never takes a node below that either.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

_TIDY_AT_LEAST: Final = 64  # a heap of this many entries is not looked through for stale ones


class Node:
    """A node of the tree. It stands in its parent's heap exactly while it is active."""

    __slots__ = (
        "__weakref__",
        "_heap",
        "_stamps",
        "_tidy_at",
        "active",
        "entered",
        "now",
        "parent",
        "stamp",
        "vtime",
        "weight",
    )

    def __init__(self, parent: "Node | None", weight: float = 1.0) -> None:
        """Make an idle node below `parent`."""
        self.parent = parent
        self.weight = weight
        self.vtime = 0.0
        self.now = 0.0  # virtual time of this node's choice: that of the child chosen last
        self.active = False
        self.stamp = 0  # of the live entry in the parent's heap
        self.entered = 0.0  # what that entry says: at most `vtime`
        self._stamps = 0
        self._heap: list[tuple[float, int, Node]] = []
        self._tidy_at = _TIDY_AT_LEAST

    def activate(self) -> None:
        """Let this node, and with it its ancestors, be chosen."""
        parent = self.parent
        if self.active or parent is None:
            return
        self.active = True
        self.vtime = max(self.vtime, parent.now)
        parent.insert(self)
        parent.activate()

    def deactivate(self) -> None:
        """Take this node out; an ancestor left without active children goes too."""
        parent = self.parent
        if not self.active or parent is None:
            return
        self.active = False
        if parent.least() is None:
            parent.deactivate()

    def least(self) -> "Node | None":
        """Return the active child with the least virtual time."""
        heap = self._heap
        while heap:
            vtime, stamp, child = heap[0]
            if not child.active or child.stamp != stamp:
                heappop(heap)
            elif child.vtime > vtime:  # charged since: it moves back now, not at each charge
                heapreplace(heap, (child.vtime, stamp, child))
                child.entered = child.vtime
            else:
                return child
        return None

    def choose(self) -> "Node | None":
        """Return the active child with the least virtual time, and move this node's time to it."""
        child = self.least()
        if child is not None and child.vtime > self.now:
            self.now = child.vtime
        return child

    def charge(self, cost: float) -> None:
        """Charge this node and its ancestors; a negative cost is a refund."""
        node, parent = self, self.parent
        while parent is not None:
            before = node.vtime
            node.vtime += cost / node.weight
            if cost < 0:
                # A node below its parent's time (its work waits for other slots) is not taken up to it either.
                node.vtime = max(node.vtime, min(before, parent.now))
                if node.active and node.vtime < node.entered:
                    parent.insert(node)  # nearer to the top than its old entry says
            node, parent = parent, parent.parent

    def forget(self) -> None:
        """Start again from zero virtual time; the whole tree does, so the children are equal again."""
        self.vtime = self.now = self.entered = 0.0
        children = [entry[2] for entry in self._heap if entry[2].active and entry[2].stamp == entry[1]]
        self._heap = sorted((0.0, child.stamp, child) for child in children)

    def insert(self, child: "Node") -> None:
        """Enter `child` at its present virtual time; an older entry of it becomes stale."""
        self._stamps += 1
        child.stamp = self._stamps
        child.entered = child.vtime
        heappush(self._heap, (child.vtime, self._stamps, child))
        if len(self._heap) > self._tidy_at:
            self._heap = [entry for entry in self._heap if entry[2].active and entry[2].stamp == entry[1]]
            heapify(self._heap)
            self._tidy_at = max(_TIDY_AT_LEAST, 2 * len(self._heap))
