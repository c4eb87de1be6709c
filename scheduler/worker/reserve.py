"""How many slots of a worker accept interactive jobs only.

A share rather than a number is for workers of few slots: of those with one, each as a whole is reserved or is not.
"""

import re
from typing import Final

from scheduler.core.murmur2 import murmur2

_ASKED: Final = re.compile(r"interactive=([0-9]{1,9})(%?)")


def reserved_slots(asked: str, slots: int, boot_id: bytes) -> int:
    """Return how many of `slots` are reserved, for `interactive=N` or `interactive=N%`.

    What a share leaves over after whole slots is one slot more in as large a part of all workers: the boot id decides
    which, so that workers need not know of each other. Raises `ValueError` that names the value and its limits.
    """
    match = _ASKED.fullmatch(asked)
    limit = 100 if match and match[2] else slots
    if match is None or int(match[1]) > limit:
        raise ValueError(
            f"'{asked}' is not interactive=N with N up to {slots}, nor interactive=N% up to 100%"
        )
    number = int(match[1])
    if not match[2]:
        return number
    whole, hundredths = divmod(slots * number, 100)
    return whole + (murmur2(boot_id) % 100 < hundredths)
