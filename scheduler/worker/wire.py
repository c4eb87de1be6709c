"""What a worker's parent and its children say to each other: msgpack frames over a socket pair, never pickle.

A frame is a length (4 bytes, big-endian) and one tagged struct. Times are milliseconds of `clock`, which all
processes of a worker share.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.core.spec import JobSpec
from scheduler.worker.actions import Outcome

FRAME_MAX_BYTES: Final = 4 * 1024 * 1024
"""More than any frame can hold by the bounds of payloads, results, checkpoints and emits."""


# -- to a child -----------------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Run a job."""

    run: int
    spec: JobSpec
    attempt: int
    max_attempts: int
    epoch: int
    checkpoint: bytes
    limit_ms: int  # when its time is up
    deadline_ms: int  # when its lease is up, as of now


class Extend(msgspec.Struct, frozen=True, tag="extend"):
    """The lease of a run was renewed."""

    run: int
    deadline_ms: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """A run has to leave by `until_ms`."""

    run: int
    reason: str
    until_ms: int


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """Checkpoint `number` of a run is durable; or never will be, and `error` says why."""

    run: int
    number: int
    error: str = ""


class Exit(msgspec.Struct, frozen=True, tag="exit"):
    """Close the lifespans and exit; nothing runs any more."""


Down = Begin | Extend | Stop | Saved | Exit


# -- to the parent --------------------------------------------------------------------------------------


class TypeInfo(msgspec.Struct, frozen=True):
    """What the parent has to know of a job type."""

    memory_bytes: int = 0  # 0: no bound


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The application is imported, its lifespans are open."""

    executor: str
    types: dict[str, TypeInfo]


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The application can't be imported, or a lifespan can't be opened; the child exits."""

    why: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """A handler ended."""

    run: int
    outcome: Outcome


class Save(msgspec.Struct, frozen=True, tag="save"):
    """A handler waits for checkpoint `number` to be durable."""

    run: int
    number: int
    data: bytes


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """How far a run is."""

    run: int
    fraction: float
    note: str


class Shield(msgspec.Struct, frozen=True, tag="shield"):
    """A run must not be stopped by a cancel or a drain for so long; 0 ends it."""

    run: int
    duration_ms: int


Up = Ready | Broken | Finished | Save | Progress | Shield

_ENCODER: Final = msgspec.msgpack.Encoder()
_LENGTH_BYTES: Final = 4


def frame(message: Down | Up) -> bytes:
    """Return the frame of a message."""
    body = _ENCODER.encode(message)
    if len(body) > FRAME_MAX_BYTES:
        raise ValueError(f"frame of {len(body)} bytes is above {FRAME_MAX_BYTES}")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class FrameError(ValueError):
    """The other side wrote something that is no frame: user code got hold of the descriptor, or ours is broken."""


class _Frames:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def bodies(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= _LENGTH_BYTES:
            size = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if size > FRAME_MAX_BYTES:
                raise FrameError(f"frame of {size} bytes")
            end = _LENGTH_BYTES + size
            if len(self._buffer) < end:
                return
            yield bytes(self._buffer[_LENGTH_BYTES:end])
            del self._buffer[:end]


class DownReader(_Frames):
    """Reads what the parent says."""

    _decoder: Final = msgspec.msgpack.Decoder(Down)

    def feed(self, data: bytes) -> list[Down]:
        """Take bytes, return the messages that are complete now."""
        return [self._decoder.decode(body) for body in self.bodies(data)]


class UpReader(_Frames):
    """Reads what a child says. Raises `FrameError` for what is none of it."""

    _decoder: Final = msgspec.msgpack.Decoder(Up)

    def feed(self, data: bytes) -> list[Up]:
        """Take bytes, return the messages that are complete now."""
        try:
            return [self._decoder.decode(body) for body in self.bodies(data)]
        except msgspec.DecodeError as error:
            raise FrameError(str(error)) from error
