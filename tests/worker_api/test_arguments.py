"""Arguments to a payload and back, checked on both sides (AV-06)."""

import enum
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest

from scheduler import Context, Fail, InvalidJob
from scheduler.worker.arguments import Arguments, Call


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Line:
    sku: str
    price: Decimal
    at: datetime | None = None
    notes: list[str] = field(default_factory=list)


class Order(msgspec.Struct):
    id: uuid.UUID
    lines: list[Line]


def arguments(fn):
    return Arguments(fn.__name__, fn)


def send_email(to: str, subject: str, body: str = ""): ...


SEND = arguments(send_email)


def refusal(fn, *args, **kwargs):
    with pytest.raises(InvalidJob) as caught:
        arguments(fn).encode(args, kwargs)
    return str(caught.value)


class TestSubmitting:
    def test_the_message_of_the_page(self):
        assert refusal(send_email, to=17, subject="x") == "send_email: argument 'to' must be str, got int 17"

    def test_what_is_left_out_is_left_out(self):
        assert SEND.encode(("a", "b"), {}) == b'{"to":"a","subject":"b"}'
        assert SEND.encode(("a",), {"subject": "b", "body": "c"}) == b'{"to":"a","subject":"b","body":"c"}'

    @pytest.mark.parametrize(
        ("args", "kwargs", "message"),
        [
            ((), {"to": "a"}, "argument 'subject' is missing"),
            (("a", "b"), {"subject": "c"}, "argument 'subject' is given twice"),
            (("a", "b", "c", "d"), {}, "takes 3 arguments, got 4"),
            ((), {"too": "a", "subject": "b"}, "unknown argument 'too': did you mean 'to'?"),
            (("a", "b"), {"boddy": "c"}, "unknown argument 'boddy': did you mean 'body'?"),
            ((None, "b"), {}, "argument 'to' must be str, got None"),
            (("x\ud800", "b"), {}, "argument 'to' can't be sent as JSON: 'utf-8' codec can't encode"),
            ((uuid.UUID(int=1), "b"), {}, "argument 'to' must be str, got UUID UUID('0000"),
        ],
    )
    def test_messages(self, args, kwargs, message):
        assert refusal(send_email, *args, **kwargs).startswith(f"send_email: {message}")

    def test_a_long_value_is_cut(self):
        assert len(refusal(send_email, to=b"x" * 10_000, subject="")) < 120

    def test_the_kwargs_of_the_caller_stay_theirs(self):
        given = {"subject": "b"}
        SEND.encode(("a",), given)
        assert given == {"subject": "b"}


VALUES = [
    (str, "x"),
    (int, 2**63 - 1),
    (int, 2**63),
    (int, -(2**31) - 1),
    (float, 1.9),
    (float, 3),
    (bool, True),
    (bytes, b"\x00\xff"),
    (None, None),
    (str | None, None),
    (uuid.UUID, uuid.UUID(int=17)),
    (Decimal, Decimal("1.10")),
    (datetime, datetime(2027, 1, 1, tzinfo=UTC)),
    (date, date(2027, 1, 1)),
    (timedelta, timedelta(seconds=1.5)),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (Literal["a", "b"], "a"),
    (list[int], [1, 2]),
    (set[str], {"a"}),
    (tuple[int, str], (1, "a")),
    (dict[str, Decimal], {"a": Decimal("0.1")}),
    (Mapping[str, int], {"a": 1}),
    (Line, Line("a", Decimal("9.99"), datetime(2027, 1, 1, tzinfo=UTC), ["n"])),
    (Order, Order(uuid.UUID(int=1), [Line("a", Decimal(1))])),
    (Annotated[int, msgspec.Meta(ge=1)], 5),
    (Any, {"a": [1, None, "x"]}),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES)
def test_values_arrive_as_they_were(annotation, value):
    def handler(value): ...

    handler.__annotations__ = {"value": annotation}
    there = arguments(handler)
    call = there.decode(there.encode((value,), {}))
    assert call == Call((), {"value": value})
    assert type(call.kwargs["value"]) in {type(value), float}


NAIVE = datetime(2027, 1, 1, tzinfo=UTC).replace(tzinfo=None)
WRONG = [
    (int, True),
    (int, 1.9),
    (int, "1"),
    (int, math.nan),
    (bool, 1),
    (float, math.nan),
    (float, math.inf),
    (float, True),
    (float, 2**63 + 1),
    (float, "1"),
    (Decimal, "x"),
    (datetime, NAIVE),
    (datetime, 1_798_761_600.5),
    (datetime | None, NAIVE),
    (list[datetime], [datetime(2027, 1, 1, tzinfo=UTC), NAIVE]),
    (Any, NAIVE),
    (Any, {"a": [math.nan]}),
    (Any, object()),
    (Line, Line("a", Decimal(1), NAIVE)),
    (Line, Line(17, Decimal(1))),
    (list[int], [1, "x"]),
    (Colour, "blue"),
    (Annotated[int, msgspec.Meta(ge=1)], 0),
    (str, ["a"]),
]


@pytest.mark.parametrize(("annotation", "value"), WRONG)
def test_what_would_arrive_as_something_else_is_refused(annotation, value):
    def handler(value): ...

    handler.__annotations__ = {"value": annotation}
    with pytest.raises(InvalidJob, match=r"^handler: argument 'value' "):
        arguments(handler).encode((value,), {})


def test_a_place_inside_a_value_is_named():
    def handler(lines: list[Line]): ...

    message = refusal(handler, [Line("a", Decimal(1)), Line(17, Decimal(1))])
    assert message.startswith("handler: argument 'lines' must be list[")
    assert message.endswith("at [1].sku")


MARKER = "s3cret-marker"


class TestReceiving:
    @pytest.mark.parametrize(
        ("payload", "kind", "message"),
        [
            (b"", Fail, "send_email: the payload is not a JSON object of arguments"),
            (b"\xff\xfe", Fail, "send_email: the payload is not a JSON object of arguments"),
            (b'["s3cret-marker"]', Fail, "send_email: the payload is not a JSON object of arguments"),
            (b'{"to": "s3cret-marker', Fail, "send_email: the payload is not a JSON object of arguments"),
            (b"[" * 100_000, Fail, "send_email: the payload is not a JSON object of arguments"),
            (b'{"to": 17, "subject": "s3cret-marker"}', TypeError, "send_email: argument 'to' must be str"),
            (b'{"to": ["s3cret-marker"], "subject": ""}', TypeError, "send_email: argument 'to' must be str"),
            (b'{"to": "s3cret-marker"}', TypeError, "send_email: the payload lacks argument 'subject'"),
            (
                b'{"to": "a", "subject": "b", "cc": "s3cret-marker"}',
                TypeError,
                "send_email: the payload has an argument 'cc', the handler does not",
            ),
            (
                b'{"to": "a", "subject": "b", "s3cret-marker": 1}',
                TypeError,
                "send_email: the payload has an argument of another name, the handler does not",
            ),
        ],
    )
    def test_what_does_not_fit_is_told_without_its_values(self, payload, kind, message):
        with pytest.raises(kind) as caught:
            SEND.decode(payload)
        assert str(caught.value) == message
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None

    def test_an_enum_is_not_echoed(self):
        def paint(colour: Colour): ...

        with pytest.raises(TypeError, match=r"^paint: argument 'colour' must be Colour$"):
            arguments(paint).decode(b'{"colour": "s3cret-marker"}')

    def test_a_charset_is_still_json(self):
        assert SEND.decode(b'{"to":"a","subject":"b"}', "Application/JSON; charset=utf-8").kwargs["to"] == "a"


class TestOtherContentTypes:
    def test_bytes_reach_the_handler_as_they_are(self):
        def thumbnail(ctx: Context, image: bytes): ...

        there = arguments(thumbnail)
        assert there.encode_raw((b"\x89PNG",), {}, "image/png") == b"\x89PNG"
        assert there.decode(b"\x89PNG", "image/png") == Call((), {"image": b"\x89PNG"})

    @pytest.mark.parametrize("fn", [send_email, lambda: None, lambda _a, _b: None])
    def test_the_handler_must_take_one_argument(self, fn):
        with pytest.raises(Fail, match="exactly one argument, bytes"):
            arguments(fn).decode(b"x", "image/png")

    def test_and_it_must_be_bytes(self):
        def one(text: str): ...

        with pytest.raises(Fail, match="needs argument 'text' to be bytes"):
            arguments(one).decode(b"x", "image/png")
        with pytest.raises(InvalidJob, match="content type image/png takes exactly one argument, bytes"):
            arguments(one).encode_raw(("x",), {}, "image/png")

    @pytest.mark.parametrize("content_type", ["application/x-python-pickle", "application/pickle"])
    def test_pickle_is_bytes_like_any_other(self, content_type):
        def one(data: bytes): ...

        assert arguments(one).decode(b"\x80\x04N.", content_type).kwargs == {"data": b"\x80\x04N."}


class TestSignatures:
    def test_the_context_is_found_by_its_annotation(self):
        def with_context(anything: Context, a: int): ...
        def without(ctx, a: int): ...

        assert arguments(with_context).takes_context
        assert not arguments(without).takes_context
        assert arguments(with_context).encode((1,), {}) == b'{"a":1}'

    def test_positional_only_and_keyword_only(self):
        def handler(a: int, b: int = 2, /, *, c: int): ...

        there = arguments(handler)
        assert there.decode(there.encode((1,), {"c": 3})) == Call((1,), {"c": 3})
        assert there.decode(there.encode((1, 5), {"c": 3})) == Call((1, 5), {"c": 3})

    def test_what_has_no_name_of_its_own_can_t_be_sent(self):
        def stars(*args: int): ...
        def more_stars(**kwargs: int): ...

        for fn in (stars, more_stars):
            with pytest.raises(InvalidJob, match="can't be sent: give each argument a name of its own"):
                arguments(fn)

    def test_the_context_comes_first(self):
        def late(a: int, ctx: Context): ...

        with pytest.raises(InvalidJob, match="Context must be the first parameter"):
            arguments(late)

    def test_a_type_that_json_can_t_tell_apart(self):
        def either(a: list[int] | set[int]): ...

        with pytest.raises(InvalidJob, match="argument 'a' can't be sent as JSON: Type unions"):
            arguments(either)
