"""Changes of jobs for the outside, on `lifecycle`."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.outputs import Lifecycle

CHANGES: Final[Family[Lifecycle]] = Family(
    {
        Lifecycle: RecordCodec("LifecycleV1", Lifecycle, max_bytes=4 * bounds.KIB),
    }
)

decode_lifecycle = CHANGES.decode
encode_lifecycle = CHANGES.encode
