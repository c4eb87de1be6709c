"""What happened, in one line each: the last of them are shown when a seed fails, all of them make its digest."""

import hashlib
from collections import deque

KEPT = 400


class History:
    """Events of one world."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=12)
        self._last: deque[str] = deque(maxlen=KEPT)
        self.count = 0

    def add(self, at_ms: int, who: str, what: str) -> None:
        line = f"{at_ms / 1_000:10.3f}  {who:<9} {what}"
        self._last.append(line)
        self._digest.update(line.encode())
        self.count += 1

    def last(self, most: int) -> list[str]:
        return list(self._last)[-most:]

    def digest(self) -> str:
        return self._digest.hexdigest()
