"""From a record to a decision: decode it, check where it landed, hand it to the core.

What can't be read becomes one quarantine record with its raw bytes, coordinates and reason; it never stops
its partition and is never dropped silently.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.codec.commands import decode_command
from scheduler.codec.confluent import Confluent
from scheduler.codec.job import decode_job, identify, with_id
from scheduler.codec.reports import decode_report
from scheduler.codec.retry import decode_retry
from scheduler.core import bounds, keys, wakeups
from scheduler.core.admission import Submitted, admit
from scheduler.core.inputs import SUBMITS, TOPIC_OF, Input, band_of
from scheduler.core.moment import Moment
from scheduler.core.outputs import CommandOut, DeadLetter, Forward, Lifecycle, Refusal, SubmitsRead
from scheduler.core.reporting import (
    on_beat,
    on_checkpoint,
    on_done,
    on_fail,
    on_offer,
    on_release,
)
from scheduler.core.reports import Beat, Checkpoint, Done, Echo, Fail, Offer, Release
from scheduler.core.settings import Settings
from scheduler.core.shard import Shard
from scheduler.core.spec import Band, JobSpec
from scheduler.core.validation import Refused, check
from scheduler.dispatcher.ports import Record
from scheduler.dispatcher.set_aside import SetAside
from scheduler.dispatcher.unpublishable import Unpublishable

_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    Done: on_done,
    Fail: on_fail,
    Release: on_release,
    Beat: on_beat,
    Checkpoint: on_checkpoint,
    Offer: on_offer,
}
_REPORTS: Final = Input.REPORTS
_BAND_OF: Final = {source: band_of(source) for source in SUBMITS}


class Intake:
    """Hands records to the core of their shard."""

    def __init__(
        self,
        prefix: str,
        shards: int,
        settings: Settings,
        confluent: Confluent | None,
        unpublishable: Unpublishable,
        set_aside: SetAside,
    ) -> None:
        """Take the topic prefix (ids derive from whole topic names), S, the queue settings, what reads the
        framing of a schema registry, if one is configured, what says which emits can't be published, and the jobs
        whose leases are left out of beats.
        """
        self._unpublishable = unpublishable
        self._set_aside = set_aside
        self._confluent = confluent
        self._topics = {source: prefix + topic for source, topic in TOPIC_OF.items()}
        self._shards = shards
        self._settings = settings

    def take(self, shard: Shard, moment: Moment, record: Record) -> Echo | None:
        """Act on one record; an echo is returned to the caller, who knows whose it is.

        Raises `RegistryUnavailable` if the record has to wait for the schema registry.
        """
        source = record.input
        try:
            if source is _REPORTS:
                return self._report(shard, moment, record)
            if source in _BAND_OF:
                self._submit(shard, moment, record)
            else:
                self._control(shard, moment, record)
        except Refused as refused:
            quarantine(shard, record, self.topic(record), refused.reason, refused.detail)
        return None

    def retry(self, shard: Shard, moment: Moment, record: Record) -> None:
        """Act on a retry record whose time has come."""
        try:
            wakeups.on_retry(shard, moment, decode_retry(record.value))
        except Refused as refused:
            quarantine(shard, record, self.topic(record), refused.reason, refused.detail)

    def _report(self, shard: Shard, moment: Moment, record: Record) -> Echo | None:
        report = decode_report(record.value)
        if isinstance(report, Echo):
            return report
        if isinstance(report, Done) and report.emits:
            on_done(shard, moment, report, unpublished=self._unpublishable.why(report, moment.mono_ms))
            return None
        if self._set_aside.jobs and isinstance(report, Beat):
            held = tuple(each for each in report.leases if each.job_id not in self._set_aside.jobs)
            report = msgspec.structs.replace(report, leases=held)
        _HANDLERS[type(report)](shard, moment, report)
        return None

    def _control(self, shard: Shard, moment: Moment, record: Record) -> None:
        if record.input is Input.REQUESTS:
            raise Refused(Refusal.UNSUPPORTED, "requests are not served by this version")
        command = decode_command(record.value)
        if isinstance(command, SubmitsRead):
            shard.hear(command)
        else:
            self._admit(shard, moment, command)

    def _submit(self, shard: Shard, moment: Moment, record: Record) -> None:
        spec = decode_job(record.value, self._confluent)
        topic = self.topic(record)
        job_id = identify(spec, topic, record.shard, record.offset)
        raw, spec = with_id(record.value or b"", spec, job_id)
        self._check(spec)
        home = keys.shard_of(spec.job_id, self._shards)
        band = _BAND_OF[record.input]
        if home != record.shard:
            forward = Forward(int(band), raw, topic, record.shard, record.offset, record.at_ms)
            shard.changes.outputs.append(CommandOut(home, forward))
            shard.changes.counts[("forwarded",)] += 1
            return
        admit(shard, moment, Submitted(spec, raw, band, record.at_ms, topic, record.shard, record.offset))

    def _admit(self, shard: Shard, moment: Moment, command: Forward) -> None:
        spec = decode_job(command.spec)
        self._check(spec)
        if not spec.job_id:  # what was forwarded has its id; what a run emitted must bring it
            raise Refused(Refusal.OUT_OF_BOUNDS, "/job_id must not be empty")
        home = keys.shard_of(spec.job_id, self._shards)
        if home != shard.number:
            shard.changes.outputs.append(CommandOut(home, command))
            return
        submitted = Submitted(
            spec,
            command.spec,
            Band(command.band),
            command.appended_at_ms,
            command.topic,
            command.partition,
            command.offset,
        )
        admit(shard, moment, submitted)

    def _check(self, spec: JobSpec) -> None:
        check(spec, self._settings.queue(spec.queue))
        if spec.after:
            raise Refused(Refusal.UNSUPPORTED, "/after: dependencies are not available in this version")

    def apply_command(self, shard: Shard, moment: Moment, command: Forward) -> None:
        """Act on a command between two shards held here, without a detour over Kafka."""
        try:
            self._admit(shard, moment, command)
        except Refused as refused:
            headers = _headers(
                refused.reason, refused.detail, command.topic, command.partition, command.offset
            )
            shard.changes.outputs.append(DeadLetter(b"", command.spec, headers))
            source = f"{command.topic}/{command.partition}@{command.offset}"
            _tell(shard, refused.reason, command.appended_at_ms, source)

    def topic(self, record: Record) -> str:
        """Return the whole name of the topic a record came from."""
        return self._topics[record.input]


def quarantine(shard: Shard, record: Record, topic: str, reason: Refusal, detail: str) -> None:
    """Send a record that can't be acted upon to the dead-letter topic as it is.

    One that is larger than any record of ours may be (a batch can unpack to far more than its topic takes) goes by
    reference: the broker would refuse it, and with it the turn, again and again.
    """
    key, value = record.key or b"", record.value or b""
    if len(key) + len(value) > _QUARANTINED_MAX_BYTES:
        detail = (
            f"{detail}; its {len(key) + len(value)} bytes are more than a dead letter holds: they stay there"
        )
        key = value = b""
    headers = _headers(reason, detail, topic, record.shard, record.offset)
    shard.changes.outputs.append(DeadLetter(key, value, headers))
    _tell(shard, reason, record.at_ms, f"{topic}/{record.shard}@{record.offset}")


def quarantine_orphan(shard: Shard, job_id: str) -> None:
    """Send a job record that has no state to the dead-letter topic: whatever became of it, it is never run."""
    raw = shard.raw_spec(job_id) or b""
    name = job_id[: bounds.JOB_ID_MAX_CHARS]  # whoever wrote that key may have written anything
    if len(raw) > bounds.SPEC_MAX_BYTES:
        raw = b""
    headers = (
        ("reason", "quarantined"),
        ("refusal", str(Refusal.STATE_MISSING)),
        ("detail", "the changelog holds the job's record but no state"),
        ("job_id", name),
        ("source_shard", str(shard.number)),
    )
    shard.changes.outputs.append(DeadLetter(name.encode(), raw, headers))
    shard.drop_spec(job_id)
    _tell(shard, Refusal.STATE_MISSING, 0, f"changelog/{shard.number}", name)


_QUARANTINED_MAX_BYTES: Final = 1_900_000  # key and value; with headers that is less than our producers send


def _tell(shard: Shard, reason: Refusal, at_ms: int, source: str, job_id: str = "") -> None:
    """Tell of a refusal on `lifecycle`, as of the refused record's append time, and count it."""
    shard.changes.counts["refused", str(reason)] += 1
    shard.changes.outputs.append(
        Lifecycle(at_ms, job_id, "", "", "", "refused", str(reason), 0, 0, shard.number, 0, source)
    )


def _headers(
    reason: Refusal, detail: str, topic: str, partition: int, offset: int
) -> tuple[tuple[str, str], ...]:
    return (
        ("reason", "quarantined"),
        ("refusal", str(reason)),
        ("detail", detail),
        ("source_topic", topic),
        ("source_partition", str(partition)),
        ("source_offset", str(offset)),
    )
