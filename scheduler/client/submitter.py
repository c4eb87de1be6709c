"""Submitting to Kafka: one job for a waiting caller, sync or async, or a stream of them.

A job counts as submitted when its delivery report says that all in-sync replicas have it, never before.
"""

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException

from scheduler.client import bulk
from scheduler.client.config import ClientConfig, Pace, producer_properties
from scheduler.client.delivery import no_acknowledgement, queue_full, undelivered
from scheduler.client.lane import Lane, Report
from scheduler.client.reference import JobRef
from scheduler.client.request import Request
from scheduler.client.topics import Topics
from scheduler.core.inputs import SUBMITS, TOPIC_OF
from scheduler.core.keys import shard_of

R = TypeVar("R")


class Submitter(Protocol):
    """Takes jobs in: `KafkaSubmitter`, or the scheduler in memory of `scheduler.testing`."""

    def submit(self, request: Request[R]) -> JobRef[R]:
        """Return once the job is durable."""

    async def asubmit(self, request: Request[R]) -> JobRef[R]:
        """Return once the job is durable."""

    def submit_many(self, requests: Iterable[Request[R]]) -> list[JobRef[R]]:
        """Return once all jobs are durable."""
