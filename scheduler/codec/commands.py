"""What shards send to each other, on `commands`."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.outputs import Command, Forward, SubmitsRead

_SOURCE_MAX_BYTES: Final = 256  # a whole topic name, or `job:` and an id
_SHARDS_MAX: Final = 4_096

COMMANDS: Final[Family[Command]] = Family(
    {
        Forward: RecordCodec(
            "ForwardV1",
            Forward,
            max_bytes=bounds.SPEC_MAX_BYTES + bounds.KIB,
            limits={"topic": _SOURCE_MAX_BYTES},
            ranges={
                "band": (0, 2),
                "partition": (0, (1 << 31) - 1),
                "offset": (0, (1 << 63) - 1),
                "appended_at_ms": (0, bounds.TIME_MAX_MS),
            },
        ),
        SubmitsRead: RecordCodec(
            "SubmitsReadV1",
            SubmitsRead,
            max_bytes=16 * bounds.KIB,
            limits={"shards": _SHARDS_MAX},
            ranges={"up_to_ms": (0, bounds.TIME_MAX_MS)},
        ),
    }
)

decode_command = COMMANDS.decode
encode_command = COMMANDS.encode
