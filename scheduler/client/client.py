"""Submitting without `@app.job`: for scripts, and for jobs whose handlers live elsewhere."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from scheduler.client.config import config_from
from scheduler.client.options import Options, Terms, terms_with
from scheduler.client.payloads import payload_of
from scheduler.client.reference import JobRef
from scheduler.client.request import Request, Template
from scheduler.client.submitter import KafkaSubmitter

R = TypeVar("R")


def request_for(tenant: str, job_type: str, payload: Any, options: Options) -> Request[Any]:
    """Return a request for a job named by its type. Raises `InvalidJob`."""
    terms = terms_with(Terms(tenant=tenant), job_type, options)
    return Template(job_type, job_type, terms).request(payload_of(job_type, payload, terms.content_type))


class _ByType:
    """What both clients are made of: whose jobs, the way to Kafka, and requests by the name of their type."""

    def __init__(
        self,
        tenant: str = "default",
        *,
        connection: Mapping[str, str] | None = None,
        prefix: str | None = None,
    ) -> None:
        """Read the environment; connect to nothing yet."""
        self._tenant = tenant
        self._submitter = KafkaSubmitter(config_from(os.environ, connection, prefix))

    def request(self, job_type: str, payload: Any = None, /, **options: Unpack[Options]) -> Request[Any]:
        """Return a request for `submit_many`. `payload` is anything that JSON holds, or bytes: a payload as it is."""
        return request_for(self._tenant, job_type, payload, options)


class Client(_ByType):
    """Submits jobs by the name of their type. Thread-safe; connects on first use, and anew after a fork.

    `connection` are librdkafka properties on top of the `KAFKA_*` environment, `prefix` is that of the topics
    (`JOBS_PREFIX`, else `jobs.`).
    """

    def submit(self, job_type: str, payload: Any = None, /, **options: Unpack[Options]) -> JobRef[Any]:
        """Submit a job; return when Kafka has it. Raises `InvalidJob`, `NotSubmitted` or `SubmitUnknown`."""
        return self._submitter.submit(self.request(job_type, payload, **options))

    def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Submit a stream of requests; return when Kafka has them all."""
        return self._submitter.submit_many(requests)

    def close(self) -> None:
        """Send what is on its way and let go of connections."""
        self._submitter.close()

    def __enter__(self) -> Self:
        """Return this client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class AsyncClient(_ByType):
    """`Client` for event loops. Runs on the same producers: properties mean the same in both."""

    async def submit(self, job_type: str, payload: Any = None, /, **options: Unpack[Options]) -> JobRef[Any]:
        """Submit a job; return when Kafka has it. Raises `InvalidJob`, `NotSubmitted` or `SubmitUnknown`."""
        return await self._submitter.asubmit(self.request(job_type, payload, **options))

    async def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Submit a stream of requests in a thread, where `requests` is iterated too; return when Kafka has them all."""
        return await asyncio.to_thread(self._submitter.submit_many, requests)

    async def close(self) -> None:
        """Send what is on its way and let go of connections."""
        await asyncio.to_thread(self._submitter.close)

    async def __aenter__(self) -> Self:
        """Return this client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()
