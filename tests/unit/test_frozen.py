"""Classes made quickly are the frozen dataclasses that `dataclasses` makes."""

import copy
import dataclasses
import inspect
import pickle
import typing
from dataclasses import FrozenInstanceError, dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.frozen import frozen
from otel_agent_replay.model import Span


class _Body:
    line: int
    name: str = "x"
    found: list[int] = field(default_factory=list)
    secret: str = field(default="", repr=False, compare=False)
    doubled: int = field(init=False, repr=False)
    unset: int = field(init=False, default=7)


def _post_init(self: typing.Any) -> None:
    object.__setattr__(self, "doubled", self.line * 2)


def _class(decorate: typing.Any) -> typing.Any:
    body = {"__annotations__": dict(_Body.__annotations__), "__doc__": "A place.", "__module__": __name__}
    defaults = {name: value for name, value in vars(_Body).items() if name in body["__annotations__"]}
    made = decorate(type("Place", (), {**body, **defaults, "__post_init__": _post_init}))
    made.__qualname__ = "Place"
    return made


Place = _class(frozen)
Plain = _class(dataclass(frozen=True, slots=True))


@frozen
class Two:
    """Can be hashed and ordered into sets."""

    first: float
    second: str = ""


@frozen
class One:
    """Has one field."""

    only: float


@frozen
class Own:
    """Says for itself what it looks like and what it equals."""

    value: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 1


def test_it_is_made_shown_and_told_like_one_of_dataclasses():
    """Arguments, defaults, factories, `__post_init__`, text, fields, signature and slots are the same."""
    for values in ((3,), (3, "y"), (3, "y", [1]), (3, "y", [1], "s")):
        assert repr(Place(*values)) == repr(Plain(*values))
        assert dataclasses.asdict(Place(*values)) == dataclasses.asdict(Plain(*values))
    assert Place(line=3, found=[2]).doubled == 6
    assert Place(3).found is not Place(3).found
    assert [one.name for one in dataclasses.fields(Place)] == [one.name for one in dataclasses.fields(Plain)]
    assert str(inspect.signature(Place)) == str(inspect.signature(Plain))
    assert typing.get_type_hints(Place.__init__) == typing.get_type_hints(Plain.__init__)
    assert (Place.__slots__, Place.__match_args__, Place.__doc__) == (Plain.__slots__, Plain.__match_args__, "A place.")
    assert not hasattr(Place(3), "__dict__")
    assert Place.__dataclass_params__.frozen
    for wrong in ((), (1, 2, 3, 4, 5)):
        with pytest.raises(TypeError):
            Place(*wrong)


def test_nothing_of_it_can_be_changed():
    """Setting and deleting are refused, of fields and of anything else."""
    place = Two(3)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        place.first = 4
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'first'"):
        del place.first
    with pytest.raises(AttributeError):
        place.other = 1
    assert place == Two(3)


def test_it_is_replaced_copied_and_pickled_whole():
    """Each of them gives an equal instance of the same class."""
    two = Two(3, "y")
    assert dataclasses.replace(two, second="z") == Two(3, "z")
    assert copy.copy(two) == copy.deepcopy(two) == pickle.loads(pickle.dumps(two)) == two
    span = Span(b"1" * 16, b"2" * 8, "name", 1)
    assert pickle.loads(pickle.dumps(span)) == copy.deepcopy(span) == span


@given(st.floats(), st.text(), st.floats(), st.text())
def test_it_equals_what_has_the_same_values_and_hashes_alike(a: float, b: str, c: float, d: str):
    """Equality and hash are those of the tuple of its values; nothing of another class is equal."""
    assert (Two(a, b) == Two(c, d)) == ((a, b) == (c, d))
    assert hash(Two(a, b)) == hash((a, b))
    assert (One(a) == One(c)) == ((a,) == (c,))
    assert One(a) == One(a)
    assert Two(a, b) != One(a)
    assert Two(a, b) != (a, b)


def test_what_a_class_says_of_itself_is_kept():
    """Methods of the class body win; a field left out of comparison does not count."""
    assert repr(Own(3)) == "own"
    assert Own(3) == Own(4)
    assert hash(Own(3)) == 1
    assert Place(3, secret="a") == Place(3, secret="b")


def test_it_shows_itself_within_itself_once():
    """A value that holds its own instance ends in dots."""
    two = Two([])
    two.first.append(two)
    assert repr(two) == "Two(first=[...], second='')"


def test_it_matches_by_position():
    """A pattern takes its fields in order."""
    match Two(3, "y"):
        case Two(first, second):
            assert (first, second) == (3, "y")


def test_what_it_cannot_make_is_refused():
    """A base class and keyword-only fields are told at once."""
    with pytest.raises(TypeError, match="base class"):
        frozen(type("Child", (_Body,), {"__doc__": ""}))
    keyword = type("Keyword", (), {"__annotations__": {"a": int}, "a": field(kw_only=True), "__doc__": ""})
    with pytest.raises(TypeError, match="keyword-only"):
        frozen(keyword)
