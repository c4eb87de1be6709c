"""`core.keys.shard_of`, made fast for the ids that we make: 36 characters of a UUID, nine words of four bytes.

murmur2 first mixes each word by itself, then folds the words into the hash. The words are mixed all at once, as
lanes of 64 bits in one large integer, and folded without cutting the hash to 32 bits each time: a product's low 32
bits depend on the low 32 bits of its factors only. 1.5 µs instead of 3.7, which a bulk submit feels.
"""

import struct
from typing import Final

from scheduler.core import keys

_UUID_BYTES: Final = 36
_WORDS: Final = struct.Struct("<9I")
_LANES: Final = struct.Struct("<9Q")
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_ALL_LANES: Final = sum(_MASK << 64 * lane for lane in range(9))
_LANE_TOPS: Final = sum(0xFF << 64 * lane for lane in range(9))  # what a shift by 24 leaves of each word
_START: Final = 0x9747B28C ^ _UUID_BYTES


def shard_of(job_id: str, shards: int) -> int:
    """Return the shard, which is the partition, of a job id among `shards`."""
    key = job_id.encode()
    if len(key) != _UUID_BYTES:
        return keys.shard_of(job_id, shards)
    words = int.from_bytes(_LANES.pack(*_WORDS.unpack(key)), "little") * _M & _ALL_LANES
    words = (words ^ (words >> 24 & _LANE_TOPS)) * _M & _ALL_LANES
    a, b, c, d, e, f, g, h, i = _LANES.unpack(words.to_bytes(_LANES.size, "little"))
    folded = (_START * _M ^ a) * _M ^ b
    folded = ((((((folded * _M ^ c) * _M ^ d) * _M ^ e) * _M ^ f) * _M ^ g) * _M ^ h) * _M ^ i
    folded &= _MASK
    folded = (folded ^ (folded >> 13)) * _M & _MASK
    hashed: int = (folded ^ (folded >> 15)) & 0x7FFFFFFF
    return hashed % shards
