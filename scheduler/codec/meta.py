"""What a shard knows of itself, in its changelog."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.inputs import Meta

_TOPICS_MAX: Final = 64  # more than there will ever be inputs
METAS: Final[Family[Meta]] = Family(
    {
        Meta: RecordCodec(
            "MetaV1",
            Meta,
            max_bytes=32 * bounds.KIB,
            limits={"topic_ids": _TOPICS_MAX, "positions": _TOPICS_MAX, "leader_epochs": _TOPICS_MAX},
        ),
    }
)

decode_meta = METAS.decode
encode_meta = METAS.encode
