"""The typed codec, kind by kind."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import json
import pathlib
import sys
import threading
import types
import zoneinfo
from typing import Any, Generic, TypeVar

import numpy as np
import pydantic
import pytest

from otel_agent_replay.errors import CodecError
from otel_agent_replay.payload import KeptAsText, decode, decode_call, encode, encode_call
from otel_agent_replay.payload import codec as codec_module
from otel_agent_replay.payload import encoding as encoding_module

T = TypeVar("T")


class Address(pydantic.BaseModel):
    city: str
    _cached: int = pydantic.PrivateAttr(default=3)


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    address: Address | None = None
    since: dt.datetime | None = None


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


@pydantic.dataclasses.dataclass
class Checked:
    n: int


@dataclasses.dataclass
class Order:
    amount: decimal.Decimal
    lines: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = len(self.lines)


class Session:
    """Something that no recording can hold."""


class Shouting(dict):
    def items(self):
        raise AssertionError("the codec must read a subclass through the builtin")


def back(value: Any) -> Any:
    encoded = encode(value)
    assert encoded.round_trips, encoded.notes
    return decode(encoded.data)


def test_json_is_written_as_json():
    """A value that JSON holds exactly is plain JSON, its keys in their own order."""
    assert encode({"b": [1, 2.5, None, True], "a": "é"}).data == '{"b":[1,2.5,null,true],"a":"é"}'.encode()


def test_a_call_is_two_members():
    """A call is `args` and `kwargs`, readable by any JSON reader."""
    encoded = encode_call((1,), {"q": "text"})
    assert json.loads(encoded.data) == {"args": [1], "kwargs": {"q": "text"}}
    assert decode_call(encoded.data) == ((1,), {"q": "text"})


def test_pydantic_models_come_back_without_validation():
    """A model comes back with its nested models, extras, private attributes and the set of given fields."""
    customer = Customer(name="Ann", address=Address(city="Bonn"), nickname="A")
    customer.address._cached = 9
    again = back(customer)
    assert again == customer
    assert again.model_fields_set == {"name", "address", "nickname"}
    assert again.nickname == "A"
    assert again.address._cached == 9
    broken = Customer.model_construct(name=5)
    assert back(broken).name == 5


def test_generic_models_come_back():
    """A parametrised pydantic model is found again through its origin."""
    page = Page[Address](items=[Address(city="Bonn")])
    again = back(page)
    assert again == page
    assert type(again) is type(page)


def test_dataclasses_come_back_without_their_init():
    """A dataclass keeps its fields, those that __init__ does not take too, and __post_init__ is not run again."""
    order = Order(decimal.Decimal("1.10"), [("a", 1)])
    order.total = 40
    again = back(order)
    assert again == order
    assert again.total == 40
    assert str(again.amount) == "1.10"
    assert back(Checked(3)) == Checked(3)


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(2026, 11, 3, 4, 5, 6, 7),
        dt.datetime(2026, 11, 3, tzinfo=dt.timezone.utc),
        dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        dt.time(1, 2, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30), "IST")),
    ],
)
def test_moments_keep_zone_and_fold(moment):
    """A moment comes back with the same zone object's class and name, and its fold."""
    again = back(moment)
    assert again == moment
    assert again.fold == moment.fold
    assert repr(again.tzinfo) == repr(moment.tzinfo)


def test_a_foreign_zone_is_kept_as_its_offset_and_said():
    """A zone of an unknown class is kept as its offset, with a note that gives the path."""

    class Odd(dt.tzinfo):
        def utcoffset(self, when):
            return dt.timedelta(hours=1)

        def tzname(self, when):
            return "ODD"

    encoded = encode({"at": dt.datetime(2026, 1, 1, tzinfo=Odd())})
    assert not encoded.round_trips
    assert encoded.notes[0].startswith("at: time zone")
    assert decode(encoded.data)["at"].utcoffset() == dt.timedelta(hours=1)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.array([], dtype="f8"),
        np.array([1.5, np.nan]),
        np.array(["a", "bcd"]),
        np.array(["2026-01-01", "NaT"], dtype="M8[ns]"),
        np.array([1 + 2j]),
        np.array([(1, "x")], dtype=[("n", "<i4"), ("s", "<U3")]),
        np.array([None, {"a": (1,)}], dtype=object),
        np.arange(6).reshape(2, 3).T,
        np.array(3.0),
    ],
)
def test_arrays_come_back(array):
    """An array keeps dtype, shape and values, and may be written to."""
    again = back(array)
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    np.testing.assert_array_equal(again, array)
    assert again.flags.writeable


@pytest.mark.parametrize(
    "scalar",
    [np.float32(0.1), np.int64(-5), np.bool_(True), np.str_("x"), np.datetime64("2026-01-01"), np.complex64(1j)],
)
def test_numpy_scalars_come_back(scalar):
    """A numpy scalar keeps its class."""
    again = back(scalar)
    assert again == scalar
    assert type(again) is type(scalar)


def test_subclasses_of_builtins_come_back():
    """Objects of subclasses of builtins keep class, content and attributes, read through the builtin's methods."""
    shouting = Shouting(a=1)
    shouting.mood = "loud"
    again = back(shouting)
    assert type(again) is Shouting
    assert dict.__eq__(again, {"a": 1})
    assert again.mood == "loud"
    assert back(collections.Counter("aab")) == collections.Counter("aab")
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    assert list(back(ordered)) == ["b", "a"]


def test_other_containers_come_back():
    """defaultdict, deque, slice and SimpleNamespace come back as they are."""
    lists = collections.defaultdict(list, {"a": [1]})
    assert back(lists) == lists
    assert back(lists)["new"] == []
    assert back(collections.deque([1, 2], maxlen=2)).maxlen == 2
    assert back(slice(1, None, 2)) == slice(1, None, 2)
    assert back(types.SimpleNamespace(a=(1,))) == types.SimpleNamespace(a=(1,))
    assert back(pathlib.Path("/tmp/x")) == pathlib.Path("/tmp/x")


def test_bytes_that_are_text_are_written_as_text():
    """Bytes that are UTF-8 are kept readable, so that redaction sees into them."""
    assert b"hello" in encode(b"hello").data
    assert back(b"hello") == b"hello"
    assert back(b"\xff\x00") == b"\xff\x00"


def test_exceptions_as_values_come_back():
    """An exception that is a value keeps class, arguments, attributes and slots."""
    error = OSError(2, "gone", "file.txt")
    error.hint = {"retry": False}
    again = back({"error": error})["error"]
    assert type(again) is FileNotFoundError
    assert (again.errno, again.strerror, again.filename) == (2, "gone", "file.txt")
    assert again.hint == {"retry": False}
    assert str(again) == str(error)


def test_what_cannot_be_kept_is_said_with_its_path():
    """An object of any other class is kept as text, and the note says where and what."""
    encoded = encode_call((), {"session": Session(), "q": 1})
    assert not encoded.round_trips
    assert encoded.notes == (f"kwargs.session: {Session.__module__}.Session kept as text only",)
    kept = decode_call(encoded.data)[1]["session"]
    assert kept == KeptAsText(f"{Session.__module__}:Session", f"<{Session.__module__}.Session object>")
    with pytest.raises(AttributeError, match="kept only a text of this"):
        kept.execute


def test_addresses_do_not_change_the_bytes():
    """Two objects that differ by their address only have the same bytes: digests must agree between processes."""
    assert encode(Session()).data == encode(Session()).data


def test_a_class_made_in_a_function_keeps_its_fields():
    """A local dataclass cannot come back as its class; its fields are kept and the note says so."""

    @dataclasses.dataclass
    class Local:
        n: int

    encoded = encode([Local(3)])
    assert not encoded.round_trips
    assert "not found by its name" in encoded.notes[0]
    assert decode(encoded.data)[0].fields == {"fields": {"n": 3}}


def test_a_repr_that_raises_is_no_harm():
    """An object whose repr raises is kept by its class."""

    class Rude:
        def __repr__(self):
            raise RuntimeError("no")

    assert "whose repr raised RuntimeError" in decode(encode(Rude()).data).text


def test_an_attribute_that_raises_gives_up_the_value_not_the_host():
    """An error inside the walk is a note, never an exception."""

    class Trap(dict):
        __slots__ = ("x",)

        @property
        def __class__(self):
            raise ZeroDivisionError("trap")

    encoded = encode({"a": Trap()})
    assert not encoded.round_trips
    assert encoded.notes


def test_cycles_are_cut_and_said():
    """A value that contains itself is cut where it does, and the note gives the path."""
    loop: dict[str, Any] = {"a": []}
    loop["a"].append(loop)
    encoded = encode(loop)
    assert encoded.notes == ("a[0]: refers back to what contains it; cut there",)
    assert isinstance(decode(encoded.data)["a"][0], KeptAsText)


def test_shared_values_are_kept_at_each_place():
    """One object at two places is no cycle."""
    shared = {"x": (1,)}
    assert back([shared, shared]) == [shared, shared]


def test_depth_is_bounded_and_said():
    """Nesting deeper than the bound is cut, at the bound, with a note."""
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    encoded = encode(deep)
    assert not encoded.round_trips
    assert "nested more than 100 deep" in encoded.notes[0]


def test_size_is_bounded_and_said(monkeypatch):
    """Too many bytes or parts give up the value with a note that says how much it was."""
    monkeypatch.setattr(codec_module, "MAX_BYTES", 100)
    encoded = encode("x" * 200)
    assert encoded.notes == ("builtins:str not kept: 202 bytes encoded, 100 are kept",)
    monkeypatch.setattr(encoding_module, "MAX_VALUES", 10)
    assert "more than" in encode([(n,) for n in range(20)]).notes[0]


def test_many_references_to_one_list_do_not_explode(monkeypatch):
    """Lists that hold each other twice double at each level; the bound on parts ends that."""
    monkeypatch.setattr(encoding_module, "MAX_VALUES", 10_000)
    laughs: list[Any] = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    assert not encode(laughs).round_trips


def test_values_are_taken_at_once():
    """Later changes to an argument do not change what was encoded."""
    value = {"a": [1]}
    encoded = encode(value)
    value["a"].append(2)
    assert decode(encoded.data) == {"a": [1]}


def test_nothing_is_imported(monkeypatch):
    """A class whose module is not loaded is an error with the path; the module stays unloaded."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    data = b'{"a":[{"$type":"class","class":"colorsys:Thing"}]}'
    with pytest.raises(CodecError, match=r"a\[0\]: class colorsys:Thing is not loaded here; import colorsys"):
        decode(data)
    assert "colorsys" not in sys.modules


def test_a_tag_cannot_fill_a_class_of_another_kind():
    """Fields are set only on objects of a class that is what the tag says."""
    for kind in ("dataclass", "attrs", "pydantic", "enum", "namedtuple", "exception"):
        data = json.dumps({"$type": kind, "class": "threading:Thread", "fields": {}, "name": "x", "given": []}).encode()
        with pytest.raises(CodecError):
            decode(data)
    assert threading.Thread is not None


def test_a_masked_scalar_is_shown_not_an_error():
    """A tag whose text redaction has masked decodes to its text."""
    data = encode({"n": decimal.Decimal("1234567890123456789.5")}).data.replace(
        b"1234567890123456789.5", b"[masked]*************"
    )
    assert decode(data)["n"] == KeptAsText("decimal", "[masked]*************")


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1} x', b"NaN", b"[Infinity]", b"\xff", b'{"$type":"nonsense"}'])
def test_other_bytes_are_refused(data):
    """Bytes that the codec does not write raise CodecError."""
    with pytest.raises(CodecError):
        decode(data)


def test_huge_integers_come_back():
    """An integer of ten thousand digits comes back although Python will not print it."""
    assert back(10**10_000 + 1) == 10**10_000 + 1
    assert back(-(2**63)) == -(2**63)


def test_surrogates_come_back_apart():
    """Two lone surrogates that would join into one character in JSON stay two."""
    text = "\ud83d\ude00"
    assert back({text: [text]}) == {text: [text]}
    assert len(back(text)) == 2
