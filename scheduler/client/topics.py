"""What a client must know of the submit topics: how many partitions, how large a record."""

import time
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from scheduler.client.config import ClientConfig
from scheduler.client.delivery import topic_problem, unreachable
from scheduler.client.errors import InvalidJob, NotSubmitted
from scheduler.client.lane import Lane
from scheduler.client.request import Request
from scheduler.core import bounds

SURELY_FITS_BYTES: Final = 32 * bounds.KIB
"""A record up to here is sent without asking for the topic's limit: a broker that refuses it says so."""
_BATCH_OVERHEAD_BYTES: Final = 256  # batch header, record header and key, generously
_LIMIT_LIFE_S: Final = 300.0
_LIMIT_UNKNOWN_LIFE_S: Final = 10.0
_APPEARS_S: Final = 1.0  # a topic created a moment ago is not known to every broker at once
_LOOK_AGAIN_S: Final = 0.05
_LIMIT: Final = "max.message.bytes"


class Topics:
    """Facts about topics, each fetched when first needed. Safe to use from several threads."""

    def __init__(self, config: ClientConfig) -> None:
        """Fetch nothing yet."""
        self._config = config
        self._partitions: dict[str, int] = {}
        self._limits: dict[str, tuple[float, int]] = {}

    def known_partitions(self, topic: str) -> int | None:
        """Return the partition count if it is known. It never changes: it is the number of shards."""
        return self._partitions.get(topic)

    def partitions(self, lane: Lane, topic: str) -> int:
        """Return the partition count of `topic`. Raises `NotSubmitted` if it is missing or no broker answers."""
        known = self._partitions.get(topic)
        if known is None:
            known = self._partitions[topic] = self._fetch_partitions(lane, topic)
        return known

    def make_sure(self, lane: Lane, topic: str) -> None:
        """Return if a broker answers now. Raises `NotSubmitted` if none does in time."""
        self._partitions[topic] = self._fetch_partitions(lane, topic)
        lane.suspect = False

    def forget(self, topic: str) -> None:
        """Fetch the partition count of `topic` again when it is needed next."""
        self._partitions.pop(topic, None)

    def needs_limit(self, topic: str, size_bytes: int) -> bool:
        """Say whether `check_size` has to ask a broker."""
        return size_bytes > SURELY_FITS_BYTES and self._known_limit(topic) is None

    def check_size(self, topic: str, request: Request[Any], size_bytes: int) -> None:
        """Raise `InvalidJob` for a record that the topic will not take."""
        if size_bytes <= SURELY_FITS_BYTES:
            return
        limit = self._known_limit(topic)
        if limit is None:
            limit = self._fetch_limit(topic)
            life_s = _LIMIT_LIFE_S if limit else _LIMIT_UNKNOWN_LIFE_S
            self._limits[topic] = (time.monotonic() + life_s, limit)
        if limit and size_bytes + _BATCH_OVERHEAD_BYTES > limit:
            raise InvalidJob(
                f"{request.spec.type}: payload: {len(request.spec.payload)} bytes make a record of {size_bytes} bytes, "
                f"above {_LIMIT} {limit} of {topic}",
            )

    def _known_limit(self, topic: str) -> int | None:
        until_s, limit = self._limits.get(topic, (0.0, 0))
        return limit if time.monotonic() < until_s else None

    def _fetch_partitions(self, lane: Lane, topic: str) -> int:
        deadline_s = time.monotonic() + min(_APPEARS_S, self._config.timeout_s)
        while True:
            found = self._describe(lane, topic)
            if found.error is None:
                return len(found.partitions)
            if time.monotonic() >= deadline_s:
                problem = topic_problem(found.error, topic, self._config)
                raise problem or NotSubmitted(f"{topic} is not ready: {found.error.str()}")
            lane.serve(_LOOK_AGAIN_S)

    def _describe(self, lane: Lane, topic: str) -> Any:
        try:
            return lane.topics(topic, self._config.timeout_s).topics[topic]
        except KafkaException as error:
            raise unreachable(lane.last_error, self._config) from error

    def _fetch_limit(self, topic: str) -> int:
        """Return the topic's limit, or 0 if this principal may not read it: then the broker's answer decides."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            admin = AdminClient(dict(self._config.properties))
            found = admin.describe_configs([resource], request_timeout=self._config.timeout_s)[resource]
            return int(found.result()[_LIMIT].value)
        except (KafkaException, KeyError, ValueError):
            return 0
