"""Kafka's murmur2, and a fast form for the ids that we make: 36 characters of a UUID, nine words of four bytes.

murmur2 first mixes each word by itself, then folds the words into the hash. The fast form mixes all words at once,
as lanes of 64 bits in one large integer, and folds them without cutting the hash to 32 bits each time: a product's
low 32 bits depend on the low 32 bits of its factors only. It takes less than half the time.
"""

import struct
from typing import Final

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C

UUID_BYTES: Final = 36
_WORDS: Final = struct.Struct("<9I")
_LANES: Final = struct.Struct("<9Q")
_ALL_LANES: Final = sum(_MASK << 64 * lane for lane in range(9))
_LANE_TOPS: Final = sum(0xFF << 64 * lane for lane in range(9))  # what a shift by 24 leaves of each word


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 of `data`, unsigned (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    words = length >> 2
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ (k >> 24)) * _M & _MASK)
    rest = data[words << 2 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def murmur2_of_uuid(data: bytes) -> int:
    """Return `murmur2(data)` for exactly 36 bytes."""
    words = int.from_bytes(_LANES.pack(*_WORDS.unpack(data)), "little") * _M & _ALL_LANES
    words = (words ^ (words >> 24 & _LANE_TOPS)) * _M & _ALL_LANES
    a, b, c, d, e, f, g, h, i = _LANES.unpack(words.to_bytes(_LANES.size, "little"))
    folded = ((_SEED ^ UUID_BYTES) * _M ^ a) * _M ^ b
    folded = ((((((folded * _M ^ c) * _M ^ d) * _M ^ e) * _M ^ f) * _M ^ g) * _M ^ h) * _M ^ i
    folded &= _MASK
    folded = (folded ^ (folded >> 13)) * _M & _MASK
    hashed: int = folded ^ (folded >> 15)
    return hashed
