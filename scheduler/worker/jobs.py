"""`Job`: a handler as its submitters see it, typed by the handler's own signature."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from scheduler.client.errors import InvalidJob
from scheduler.client.options import Options, Terms, terms_with
from scheduler.client.payloads import is_json
from scheduler.client.ports import Submitter
from scheduler.client.reference import JobRef
from scheduler.client.request import Request, Template
from scheduler.worker.arguments import Arguments
from scheduler.worker.context import Context
from scheduler.worker.definition import JobDefinition, Kind
from scheduler.worker.detached import detached_context
from scheduler.worker.outcomes import Outcome

P = ParamSpec("P")
R = TypeVar("R")


class Requirements(msgspec.Struct, frozen=True):
    """What a handler needs of the worker that runs it."""
