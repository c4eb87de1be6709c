"""What shards send to each other, on `commands`."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.outputs import Command, Forward

COMMANDS: Final[Family[Command]] = Family(
    {
        Forward: RecordCodec(
            "ForwardV1",
            Forward,
            max_bytes=bounds.SPEC_MAX_BYTES + bounds.KIB,
            ranges={"band": (0, 2), "partition": (0, (1 << 31) - 1), "offset": (0, (1 << 63) - 1)},
        ),
    }
)

decode_command = COMMANDS.decode
encode_command = COMMANDS.encode
