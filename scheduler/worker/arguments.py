"""A handler's arguments to a JSON payload and back, checked against its annotations on both sides. Never pickle.

The payload is one JSON object, argument name to value; what the caller left out is left out, so the worker's
own defaults apply. On the submitting side a mistake is `InvalidJob` and may show the short offending value,
since it goes to who passed it. On the worker's side messages show names and types only, since they are kept
with the job and read by others. There a payload that is no JSON object is `Fail`, and arguments that don't fit
are a `TypeError`, like those of any call: a failed attempt, for the next one may meet a newer release.
"""

import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.client.errors import InvalidJob
from scheduler.client.payloads import UNSENDABLE, is_json, unfit
from scheduler.client.showing import shown_with_type, unknown
from scheduler.worker.context import Context
from scheduler.worker.outcomes import Fail

JSON: Final = "application/json"

_REFUSED_KINDS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_EXACT: Final[frozenset[object]] = frozenset({str, int, bool})  # one look at the type says all
_NAME_SHOWN_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Call:
    """How to call a handler, beside its context."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    annotation: Any
    required: bool
    positional_only: bool
    decoder: msgspec.json.Decoder[Any]


class Arguments:
    """The parameters of one handler, without its context. Made once a job is first used, not at import:
    only then are all names of a module known that its annotations mention.
    """

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        """Read the signature of `fn`, which messages call `name`. Raises `InvalidJob` for what can't be sent."""
        self.name = name
        parameters = list(inspect.signature(fn).parameters.values())
        hints = _hints(name, fn)
        self.takes_context = bool(parameters) and hints.get(parameters[0].name) is Context
        own = parameters[1:] if self.takes_context else parameters
        self._parameters = {p.name: _parameter(name, p, hints.get(p.name, Any)) for p in own}
        self._order = tuple(self._parameters)
        self._all = frozenset(self._parameters)
        self._required = frozenset(p.name for p in self._parameters.values() if p.required)
        self._exact = {p.name: p.annotation for p in self._parameters.values() if p.annotation in _EXACT}
        self._encode = msgspec.json.Encoder().encode

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the payload of a call. Raises `InvalidJob` as the call itself would raise `TypeError`."""
        values = self._bound(args, kwargs)
        exact = self._exact
        for name, value in values.items():
            if type(value) is not exact.get(name, _Never):
                self._check(name, value)
        try:
            return self._encode(values)
        except UNSENDABLE as error:
            raise InvalidJob(self._unsendable(values, error)) from None

    def encode_raw(self, args: tuple[Any, ...], kwargs: dict[str, Any], content_type: str) -> bytes:
        """Return the payload of a call under a content type other than JSON: its single argument, bytes."""
        values = tuple(self._bound(args, kwargs).values())
        if len(values) != 1 or not isinstance(values[0], bytes):
            raise InvalidJob(f"{self.name}: content type {content_type} takes exactly one argument, bytes")
        return values[0]

    def decode(self, payload: bytes, content_type: str = JSON) -> Call:
        """Return the call that a payload asks for. Raises `Fail` or `TypeError` if it doesn't fit the handler."""
        if not is_json(content_type):
            return self._raw_call(payload, content_type)
        return self._call({name: self._decoded(name, raw) for name, raw in self._members(payload).items()})

    # -- submitting ----------------------------------------------------------------------------------

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        values = dict(zip(self._order, args, strict=False)) if args else kwargs
        if args and kwargs:
            twice = values.keys() & kwargs.keys()
            if twice:
                raise InvalidJob(f"{self.name}: argument {min(twice)!r} is given twice")
            values.update(kwargs)
        if len(args) > len(self._order):
            raise InvalidJob(f"{self.name}: takes {len(self._order)} arguments, got {len(args)}")
        names = values.keys()
        if not names <= self._all:
            raise InvalidJob(f"{self.name}: {unknown('argument', min(names - self._all), self._order)}")
        if not names >= self._required:
            raise InvalidJob(f"{self.name}: argument {min(self._required - names)!r} is missing")
        return values

    def _check(self, name: str, value: Any) -> None:
        """Refuse a value that the worker would not get back as what the annotation says."""
        parameter = self._parameters[name]
        try:
            problem = _plain_problem(parameter.annotation, value) or self._round_trip_problem(
                parameter, value
            )
        except UNSENDABLE as error:
            problem = f"can't be sent as JSON: {error}"
        if problem is not None:
            raise InvalidJob(f"{self.name}: argument {name!r} {problem}")

    def _round_trip_problem(self, parameter: _Parameter, value: Any) -> str | None:
        problem = unfit(value)
        if problem is not None:
            return problem
        try:
            parameter.decoder.decode(self._encode(value))
        except msgspec.ValidationError as error:
            return f"must be {_type_name(parameter.annotation)}, got {shown_with_type(value)}{_path(error)}"
        return None

    def _unsendable(self, values: dict[str, Any], error: Exception) -> str:
        for name, value in values.items():
            try:
                self._encode(value)
            except UNSENDABLE as cause:
                return f"{self.name}: argument {name!r} can't be sent as JSON: {cause}"
        return f"{self.name}: the arguments can't be sent as JSON: {error}"

    # -- receiving -----------------------------------------------------------------------------------

    def _members(self, payload: bytes) -> dict[str, msgspec.Raw]:
        try:
            return msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError):
            raise Fail(f"{self.name}: the payload is not a JSON object of arguments") from None

    def _decoded(self, name: str, raw: msgspec.Raw) -> Any:
        parameter = self._parameters.get(name)
        if parameter is None:
            shown = (
                repr(name) if name.isidentifier() and len(name) <= _NAME_SHOWN_CHARS else "of another name"
            )
            raise TypeError(f"{self.name}: the payload has an argument {shown}, the handler does not")
        try:
            return parameter.decoder.decode(raw)
        except (ValueError, RecursionError) as error:
            wanted = _type_name(parameter.annotation)
            raise TypeError(f"{self.name}: argument {name!r} must be {wanted}{_path(error)}") from None

    def _call(self, values: dict[str, Any]) -> Call:
        missing = self._required - values.keys()
        if missing:
            raise TypeError(f"{self.name}: the payload lacks argument {min(missing)!r}")
        args: list[Any] = []
        for parameter in self._parameters.values():
            if not parameter.positional_only or parameter.name not in values:
                break
            args.append(values.pop(parameter.name))
        return Call(tuple(args), values)

    def _raw_call(self, payload: bytes, content_type: str) -> Call:
        if len(self._order) != 1:
            raise Fail(
                f"{self.name}: content type {content_type} needs a handler with exactly one argument, bytes"
            )
        parameter = self._parameters[self._order[0]]
        if parameter.annotation not in {bytes, Any}:
            raise Fail(
                f"{self.name}: content type {content_type} needs argument {parameter.name!r} to be bytes"
            )
        return Call((), {parameter.name: payload}) if not parameter.positional_only else Call((payload,), {})


class _Never:
    """Stands for `no annotation that one look decides`; no value has this type."""


def _hints(name: str, fn: Callable[..., Any]) -> dict[str, Any]:
    inner = inspect.unwrap(fn)
    annotations = {key: of for key, of in inner.__annotations__.items() if key != "return"}
    known = {"Context": Context, **inner.__globals__}  # Context may be imported for type checkers only
    try:
        return typing.get_type_hints(
            types.SimpleNamespace(__annotations__=annotations), known, include_extras=True
        )
    except NameError as error:
        raise InvalidJob(
            f"{name}: {error}, which an annotation mentions: define or import it at module level, "
            "not under TYPE_CHECKING",
        ) from None


def _parameter(job: str, parameter: inspect.Parameter, annotation: Any) -> _Parameter:
    if parameter.kind in _REFUSED_KINDS:
        raise InvalidJob(f"{job}: {parameter} can't be sent: give each argument a name of its own")
    if annotation is Context:
        raise InvalidJob(f"{job}: {parameter.name}: Context must be the first parameter")
    try:
        decoder = msgspec.json.Decoder(annotation)
    except TypeError as error:
        raise InvalidJob(f"{job}: argument {parameter.name!r} can't be sent as JSON: {error}") from None
    return _Parameter(
        name=parameter.name,
        annotation=annotation,
        required=parameter.default is inspect.Parameter.empty,
        positional_only=parameter.kind is inspect.Parameter.POSITIONAL_ONLY,
        decoder=decoder,
    )


def _plain_problem(annotation: Any, value: Any) -> str | None:
    """Refuse what JSON would carry but the annotation does not say: a UUID for `str`, 1 for `bool`."""
    if annotation in {str, int, bool, bytes} and not isinstance(value, annotation):
        return f"must be {_type_name(annotation)}, got {shown_with_type(value)}"
    wrong_number = isinstance(value, int) and annotation is float and int(float(value)) != value
    if wrong_number or (isinstance(value, bool) and annotation in {int, float}):
        return f"must be {_type_name(annotation)}, got {shown_with_type(value)}"
    return None


def _type_name(annotation: Any) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def _path(error: Exception) -> str:
    """Return where in a value an error is, for example ` at [3].price`; msgspec shows no keys of dictionaries."""
    _, found, path = str(error).rpartition(" - at `$")
    return f" at {path.rstrip('`')}" if found else ""
