"""The digest of a job's content: what must be the same for two submits of one id to be the same submit."""

import hashlib
from typing import Final

from scheduler.core import bounds
from scheduler.core.spec import JobSpec

_PERSON: Final = b"jobs.content.1"  # another rule would get another name


def digest(spec: JobSpec) -> bytes:
    """Return 16 bytes over type, content type, payload and parents.

    Taken on decoded values: honest copies of a record may differ in bytes, since libraries write arrays and
    maps in different blocks. Times, labels, priority and the like may differ between honest retries, so they do
    not count. Unambiguous: a head of all lengths, then the parts in that order.
    """
    parts = [
        spec.type.encode(),
        spec.content_type.encode(),
        spec.payload,
        *(parent.encode() for parent in spec.after),
    ]
    head = b"%b\n" % b",".join([b"%d" % len(part) for part in parts])
    return hashlib.blake2b(b"".join((head, *parts)), digest_size=bounds.DIGEST_BYTES, person=_PERSON).digest()
