"""What must hold whatever happens: of every step, and of the owner's memory after it."""

from tests.model.state import CANCELLED, ENDED, LEASED, REVOKE, Job, State, Worker

OVERLAP = "two runs of the job at once"
LEASE_LEFT = "a lease has ended while its run may go on"
NO_LEASE = "a run has begun without a live lease"
CANCELLED_RUN = "a run of a cancelled job has begun"
STARTED_TWICE = "a second run of the same epoch has begun"
LIVE_REVOKED = "a revoke has stopped a run whose lease lives"
DIVERGED = "the owner's memory is not what the changelog says"
EPOCH_NOT_HIGHER = "the epoch of a grant is not above the last one"
END_LEFT = "a job has left its end"
COMPLETED_TWICE = "a second completion has been accepted"
OLD_COMPLETION = "the completion of an older epoch has been accepted"


def violated(before: State, after: State) -> str:
    """Return what a step violates, an empty string if nothing."""
    found = ""
    if after.workers is not before.workers:
        found = _by_runs(before, after)
    if not found and after.job is not before.job:
        found = _by_job(before, after.job)
    return found or _by_memory(after)


def _by_memory(state: State) -> str:
    owner = state.dispatchers[state.owner]
    return DIVERGED if owner.stage and not owner.turn and owner.job != state.job else ""


def _by_runs(before: State, after: State) -> str:
    for old, new in zip(before.workers, after.workers, strict=True):
        if new.run and new.run != old.run:
            found = _by_start(after.job, before.started, new.run)
        elif old.run and not new.run:
            found = LIVE_REVOKED if _was_revoked(old, new) and _lives(before.job, old.run) else ""
        else:
            continue
        if found:
            return found
    return OVERLAP if sum(1 for worker in after.workers if worker.run) > 1 else ""


def _by_start(job: Job, started: int, epoch: int) -> str:
    if job.phase == CANCELLED:
        return CANCELLED_RUN
    if epoch <= started:
        return STARTED_TWICE
    return "" if job.phase == LEASED and job.epoch == epoch else NO_LEASE


def _was_revoked(old: Worker, new: Worker) -> bool:
    return len(new.inbox) < len(old.inbox) and old.inbox[0].kind == REVOKE and old.life == new.life


def _lives(job: Job, epoch: int) -> bool:
    return job.phase == LEASED and job.epoch == epoch and not job.ending


def _by_job(before: State, new: Job) -> str:
    old = before.job
    is_left = old.phase == LEASED and (new.phase != LEASED or new.epoch != old.epoch)
    if is_left and any(worker.run == old.epoch and worker.left for worker in before.workers):
        return LEASE_LEFT
    if new.phase == LEASED and old.phase != LEASED and new.epoch <= old.epoch:
        return EPOCH_NOT_HIGHER
    if old.phase in ENDED and new.phase != old.phase:
        return END_LEFT
    return _by_completion(old, new)


def _by_completion(old: Job, new: Job) -> str:
    if len(new.completed) == len(old.completed):
        return ""
    if len(new.completed) > 1:
        return COMPLETED_TWICE
    return "" if new.completed[-1] == new.epoch else OLD_COMPLETION
