"""The epochs that ended here, remembered until no lease of them can start anything any more."""

from collections import deque


class EndedEpochs:
    """The highest ended epoch of each job, for a while.

    A lease of an epoch names an offer that was sent before the epoch was granted. So once a whole first
    period has gone by since we first heard of the epoch, every offer it can name is too old to start it, and
    what is forgotten then can't be started twice.
    """

    def __init__(self, keep_ms: int) -> None:
        """Remember each epoch for `keep_ms` after its end."""
        self._keep_ms = keep_ms
        self._epochs: dict[str, tuple[int, int]] = {}
        self._order: deque[tuple[int, str]] = deque()

    def __len__(self) -> int:
        """Return how many jobs are remembered."""
        return len(self._epochs)

    def add(self, job_id: str, epoch: int, now_ms: int) -> None:
        """Remember that this epoch, and every lower one, has ended here."""
        self._forget(now_ms)
        known = self._epochs.get(job_id)
        until_ms = now_ms + self._keep_ms
        self._epochs[job_id] = (max(epoch, known[0]) if known else epoch, until_ms)
        self._order.append((until_ms, job_id))

    def has(self, job_id: str, epoch: int, now_ms: int) -> bool:
        """Say whether this epoch or a higher one of the job has ended here."""
        self._forget(now_ms)
        known = self._epochs.get(job_id)
        return known is not None and epoch <= known[0]

    def _forget(self, now_ms: int) -> None:
        while self._order and self._order[0][0] <= now_ms:
            until_ms, job_id = self._order.popleft()
            known = self._epochs.get(job_id)
            if known is not None and known[1] == until_ms:
                del self._epochs[job_id]
