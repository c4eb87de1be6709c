"""What a run emitted: published only because its completion was accepted, in the same transaction."""

from scheduler.core import keys
from scheduler.core.job import JobState
from scheduler.core.moment import Moment
from scheduler.core.outputs import CommandOut, Forward, MessageOut
from scheduler.core.reports import Emit
from scheduler.core.shard import Shard


def emit_all(shard: Shard, moment: Moment, state: JobState, emits: tuple[Emit, ...]) -> None:
    """Send the emitted messages and jobs on their way."""
    for emit in emits:
        if emit.topic:
            shard.changes.outputs.append(MessageOut(state.job_id, emit.topic, emit.key, emit.value))
        else:
            shard.changes.outputs.append(_child(shard, moment, state, emit))


def _child(shard: Shard, moment: Moment, state: JobState, emit: Emit) -> CommandOut:
    source = f"job:{state.job_id}"
    forward = Forward(emit.band, emit.value, source, shard.number, state.epoch, moment.now_ms)
    # A key that is not the job's id, or no text, only costs a detour: the job record says where it belongs.
    return CommandOut(keys.shard_of(emit.key.decode(errors="replace"), shard.fleet.shards), forward)


def refused_topics(shard: Shard, state: JobState, emits: tuple[Emit, ...]) -> list[str]:
    """Return the topics that the job's queue may not emit to."""
    allowed = shard.fleet.settings.queue(state.admitted.queue).emits
    return [emit.topic for emit in emits if emit.topic and emit.topic not in allowed]
