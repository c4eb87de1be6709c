"""The digest of a job's content: what must be the same for two submits of one id to be the same submit."""

from hashlib import blake2b
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
    job_type, content_type, payload = spec.type.encode(), spec.content_type.encode(), spec.payload
    parents = [parent.encode() for parent in spec.after] if spec.after else _NONE
    lengths = b"%d,%d,%d" % (len(job_type), len(content_type), len(payload))
    for parent in parents:
        lengths += b",%d" % len(parent)
    content = b"".join((lengths, b"\n", job_type, content_type, payload, *parents))
    return blake2b(content, digest_size=bounds.DIGEST_BYTES, person=_PERSON).digest()


_NONE: Final[list[bytes]] = []
