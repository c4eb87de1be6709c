"""A TCP proxy before the brokers: it cuts, slows and delays, for one client or one broker, in one direction or both.

A client is told by its name: the first request of each Kafka connection carries the property `client.id`.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

T = TypeVar("T")

LOOPBACK: Final = "127.0.0.1"
CHUNK: Final = 64 * 1024
LOOK_S: Final = 0.05
_CLIENT_ID_AT: Final = 12
"""Bytes before the client's name in a request: size, API key, API version, correlation id, and the name's length."""


class Direction(Enum):
    REQUESTS = "requests"
    ANSWERS = "answers"


BOTH: Final = frozenset(Direction)


@dataclass(frozen=True, eq=False)
class Trouble:
    """What befalls connections. `client` and `broker` are whose; None is everybody's.

    A cut holds bytes back, as a network does that loses packets: what was sent arrives if the cut ends while both
    sides still wait. With `loses` the connection ends with the cut, and what was held back never arrives.
    """

    client: str | None = None
    broker: int | None = None
    directions: frozenset[Direction] = BOTH
    cut: bool = False
    loses: bool = False
    delay_s: float = 0.0
    bytes_per_s: float = float("inf")


@dataclass(eq=False)
class Link:
    """One connection through the proxy."""

    broker: int
    writers: tuple[asyncio.StreamWriter, ...]
    client: str = ""

    def suffers(self, trouble: Trouble) -> bool:
        return trouble.client in {None, self.client} and trouble.broker in {None, self.broker}

    def close(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@dataclass
class Network:
    """The troubles of now, and the connections that they befall."""

    troubles: frozenset[Trouble] = frozenset()
    links: set[Link] = field(default_factory=set)

    def of(self, link: Link, direction: Direction) -> list[Trouble]:
        return [each for each in self.troubles if direction in each.directions and link.suffers(each)]

    async def passage(self, link: Link, direction: Direction, size: int) -> None:
        """Wait as long as `size` bytes take to come through."""
        for trouble in self.of(link, direction):
            await asyncio.sleep(trouble.delay_s + size / trouble.bytes_per_s)
        while any(trouble.cut for trouble in self.of(link, direction)):  # noqa: ASYNC110 - other threads change it
            await asyncio.sleep(LOOK_S)


class Proxy:
    """Ports that forward to brokers. It runs in a thread of its own."""

    def __init__(self) -> None:
        self._network = Network()
        self._loop = asyncio.new_event_loop()
        self._changing = threading.Lock()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def forward(self, broker: int, port: int, to_port: int) -> None:
        """Listen on `port` for what is meant for `broker`, which listens on `to_port`."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connect(broker, to_port, reader, writer)

        self._servers.append(self._call(asyncio.start_server(accept, LOOPBACK, port)))

    @contextlib.contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[None]:
        """Let `trouble` be on inside the block."""
        with self._changing:
            self._network.troubles |= {trouble}
        try:
            yield
        finally:
            with self._changing:
                self._loop.call_soon_threadsafe(self._end, trouble)

    def close(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _end(self, trouble: Trouble) -> None:
        if trouble.loses:
            for link in [each for each in self._network.links if each.suffers(trouble)]:
                link.close()
        self._network.troubles -= {trouble}

    async def _connect(
        self, broker: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            writer.transport.abort()  # the broker is down: so is the way to it
            return
        link = Link(broker, (writer, broker_writer))
        self._network.links.add(link)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(link, Direction.REQUESTS, reader, broker_writer))
                pumps.create_task(self._pump(link, Direction.ANSWERS, broker_reader, writer))
        except* (_Ended, OSError):
            pass
        finally:
            self._network.links.discard(link)
            link.close()

    async def _pump(
        self, link: Link, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while chunk := await reader.read(CHUNK):
            if direction is Direction.REQUESTS and not link.client:
                link.client = client_of(chunk)
            await self._network.passage(link, direction, len(chunk))
            writer.write(chunk)
            await writer.drain()
        raise _Ended  # which ends the other direction too

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._network.troubles = frozenset()
        while self._network.links:
            for link in self._network.links:
                link.close()
            await asyncio.sleep(LOOK_S)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


class _Ended(Exception):
    """One side of a connection has ended it."""


def client_of(request: bytes) -> str:
    """Return the client's name in the first request of a connection."""
    length = int.from_bytes(request[_CLIENT_ID_AT : _CLIENT_ID_AT + 2], "big", signed=True)
    name = request[_CLIENT_ID_AT + 2 :][: max(length, 0)]
    return name.decode(errors="replace")
