"""What every kind of cluster offers, wherever its brokers run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self


class Broker(Protocol):
    """One node of a cluster that we started. All calls return when what they say has happened."""

    id: int
    bootstrap: str

    def start(self) -> None:
        """Start it again on the data it had, and wait until it answers."""

    def stop(self) -> None:
        """End it as an operator would (SIGTERM)."""

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""

    def suspend(self) -> None:
        """Freeze it: its connections stay open, and nothing is answered."""

    def resume(self) -> None:
        """Let a suspended broker go on."""


class Cluster(ABC):
    """A running Kafka. As a context manager it stops on the way out.

    ``bootstrap`` is the value for ``bootstrap.servers``; ``nodes`` are the brokers, empty if others run them.
    """

    bootstrap: str
    nodes: Sequence[Broker]

    @abstractmethod
    def stop(self) -> None:
        """Stop what we started; brokers that others run stay as they are. A second call does nothing."""

    @abstractmethod
    def leave_running(self) -> None:
        """Let the brokers outlive this process; ``scheduler dev stop`` ends them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class AttachedCluster(Cluster):
    """A cluster that somebody else runs: nothing of it is ours to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.nodes = ()

    def stop(self) -> None:
        """Do nothing."""

    def leave_running(self) -> None:
        """Do nothing: it runs anyway."""
