"""Strategies shared by the property tests: values, JSON, bodies, chunkings, secrets."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import json
import pathlib
import string
from typing import Any, NamedTuple

import pydantic
from hypothesis import strategies as st


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    value: Any


class Pair(NamedTuple):
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    name: str
    extra: Any = None


class Marked(str):
    """A text of its own class."""

    __slots__ = ()


def texts(max_size: int = 20) -> st.SearchStrategy[str]:
    """Text with lone surrogates now and then."""
    return st.text(st.characters(exclude_categories=()), max_size=max_size)


def json_values(max_leaves: int = 20) -> st.SearchStrategy[Any]:
    """What `json.loads` may give."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
        max_leaves=max_leaves,
    )


ZONES = st.sampled_from(
    [None, dt.timezone.utc, dt.timezone(dt.timedelta(hours=2)), dt.timezone(-dt.timedelta(hours=3), "Here")]
)

HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | texts()
    | st.binary(max_size=20)
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.timedeltas()
    | st.datetimes(timezones=ZONES)
    | st.times(timezones=ZONES)
    | st.sampled_from([*Colour, *Level, Access.READ, Access.READ | Access.WRITE, ...])
    | st.complex_numbers(allow_nan=False, allow_infinity=True)
    | st.text(max_size=10).map(Marked)
    | st.builds(pathlib.PurePosixPath, st.text(string.ascii_letters + "/.é", min_size=1, max_size=10))
)


def values(max_leaves: int = 15) -> st.SearchStrategy[Any]:
    """Everything that the codec keeps and that `==` can compare."""

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        items = st.lists(inner, max_size=4)
        return (
            items
            | items.map(tuple)
            | items.map(collections.deque)
            | st.dictionaries(HASHABLE, inner, max_size=4)
            | st.dictionaries(st.sampled_from(["a", "b", "$type", "args"]), inner, max_size=4)
            | st.dictionaries(st.text(max_size=5), inner, max_size=3).map(collections.OrderedDict)
            | st.builds(Point, inner, inner)
            | st.builds(Tree, texts(), items)
            | st.builds(Slotted, inner)
            | st.builds(Pair, inner, inner)
            | st.builds(Model, name=st.text(max_size=5), extra=inner)
        )

    plain = (
        HASHABLE
        | st.frozensets(HASHABLE, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.binary(max_size=20).map(bytearray)
        | st.builds(range, st.integers(-(2**70), 2**70), st.integers(-9, 9), st.integers(1, 2**70))
        | st.sampled_from([int, collections.Counter, Point])
    )
    return st.recursive(plain, grow, max_leaves=max_leaves)


def chunkings(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """Any way to cut `data`, empty pieces included."""
    cuts = st.lists(st.integers(0, len(data)), max_size=12).map(sorted)
    return cuts.map(lambda at: [data[low:high] for low, high in zip([0, *at], [*at, len(data)])])


ALPHABET = string.ascii_letters + string.digits


@st.composite
def tokens(draw: st.DrawFn) -> str:
    """A credential by its shape."""
    head = draw(
        st.sampled_from(["sk-", "sk-ant-api03-", "sk-proj-", "ghp_", "hf_", "xoxb-1", "gsk_", "glpat-", "npm_"])
    )
    return head + draw(st.text(ALPHABET, min_size=36, max_size=48)) + "7"


SECRETS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="*"), min_size=10, max_size=40
)
"""Secrets without a shape: found only because they were learnt."""


@st.composite
def bodies_with(draw: st.DrawFn, secret: str) -> tuple[bytes, str]:
    """A body that holds `secret` somewhere, and its media type."""
    kind = draw(st.sampled_from(["json", "ascii", "nested", "text", "stream", "form"]))
    around = st.text(st.characters(exclude_categories=("Cs",)), max_size=15)
    said = f"{draw(around)} {secret} {draw(around)}"
    tree = {
        "messages": [draw(json_values(5)), {"role": "user", "content": said}],
        "model": "m",
        "n": draw(st.integers()),
    }
    if kind == "json":
        return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass"), "application/json"
    if kind == "ascii":
        return json.dumps(tree, ensure_ascii=True).encode(), "application/json; charset=utf-8"
    if kind == "nested":
        arguments = json.dumps({"q": said}, ensure_ascii=draw(st.booleans()))
        return json.dumps({"function": {"arguments": arguments}}).encode(), "application/json"
    if kind == "form":
        import urllib.parse

        return urllib.parse.urlencode({"a": said, "b": "1"}).encode(), "application/x-www-form-urlencoded"
    if kind == "stream":
        events = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in (said, "end")]
        return "".join(f"data: {event}\n\n" for event in events).encode(), "text/event-stream"
    return said.encode("utf-8", "surrogatepass"), "text/plain"
