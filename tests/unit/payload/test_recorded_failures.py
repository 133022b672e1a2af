"""Exceptions as data and back."""

from __future__ import annotations

import pickle
import sys

import httpx
import openai
import pytest

from otel_agent_replay.model import Failure, FailurePhase
from otel_agent_replay.payload import UnknownRecordedError, failure_of, rebuild


class NeedsMuch(Exception):
    """Its __init__ wants arguments that its args do not hold."""

    def __init__(self, code: int, *, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(f"{code}: {detail}")

    def __str__(self) -> str:
        return f"<{self.code}|{self.detail}>"


class Slotted(Exception):
    __slots__ = ("extra",)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot say")


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad", 3),
        KeyError("k"),
        OSError(2, "gone", "f.txt"),
        ConnectionResetError(104, "reset"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
        SystemExit(3),
        StopIteration({"a": 1}),
        TimeoutError(),
        NeedsMuch(7, detail="no"),
        ImportError("no x", name="x", path="/x"),
    ],
)
def test_the_same_class_text_and_attributes_come_back(error):
    """type(e), str(e), args and attributes of a rebuilt exception are those of the recorded one."""
    failure = failure_of(raised(error), FailurePhase.CALL)
    assert failure.round_trips
    again = rebuild(failure)
    assert type(again) is type(error)
    assert str(again) == str(error) == failure.message
    assert again.args == error.args
    assert vars(again) == vars(error)
    for name in ("errno", "strerror", "filename", "object", "start", "code", "value", "name"):
        assert getattr(again, name, None) == getattr(error, name, None)


def test_slots_come_back():
    """Attributes that lie in slots are kept."""
    error = Slotted("x")
    error.extra = (1, 2)
    assert rebuild(failure_of(error, FailurePhase.CALL)).extra == (1, 2)


def test_the_cause_comes_back_as_cause():
    """`raise ... from ...` is kept: the cause is the cause again."""
    try:
        try:
            raise httpx.ReadTimeout("slow")
        except httpx.ReadTimeout as slow:
            raise ValueError("wrapped") from slow
    except ValueError as error:
        failure = failure_of(error, FailurePhase.BODY)
    assert failure.phase is FailurePhase.BODY
    again = rebuild(failure)
    assert type(again.__cause__) is httpx.ReadTimeout
    assert str(again.__cause__) == "slow"


def test_an_exception_raised_during_another_keeps_its_context():
    """An implicit context comes back as context, not as cause; `from None` keeps nothing."""
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")
    except ValueError as error:
        again = rebuild(failure_of(error, FailurePhase.CALL))
    assert again.__cause__ is None
    assert type(again.__context__) is KeyError
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None
    except ValueError as error:
        assert failure_of(error, FailurePhase.CALL).cause is None


def test_chains_are_bounded_and_loops_end():
    """A long chain is cut, and a chain that runs in a circle ends."""
    error: BaseException = ValueError("0")
    for number in range(50):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    length, failure = 0, failure_of(error, FailurePhase.CALL)
    while failure is not None:
        length, failure = length + 1, failure.cause
    assert length == 9
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert failure_of(one, FailurePhase.CALL).cause.cause is None


def test_an_sdks_error_has_its_response():
    """An exception that holds a response says that it does not come back whole, and what is asked of it comes back."""
    request = httpx.Request("POST", "http://example.org")
    response = httpx.Response(429, request=request)
    error = openai.RateLimitError("slow down", response=response, body={"code": "rate"})
    failure = failure_of(error, FailurePhase.CALL)
    assert not failure.round_trips
    again = rebuild(failure)
    assert type(again) is openai.RateLimitError
    assert (again.status_code, again.body, str(again)) == (429, {"code": "rate"}, "slow down")
    assert (type(again.response), again.response.status_code) == (httpx.Response, 429)
    assert str(again.request.url) == "http://example.org"


def test_an_unknown_class_has_a_stand_in():
    """A class that is not loaded is neither imported nor guessed: the stand-in names it."""
    failure = Failure(type="nowhere.errors:Gone", message="it was", state=b'{"args":[],"dict":{}}')
    again = rebuild(failure)
    assert type(again) is UnknownRecordedError
    assert again.type == "nowhere.errors:Gone"
    assert "nowhere.errors" in str(again)
    assert "nowhere.errors" not in sys.modules
    assert str(pickle.loads(pickle.dumps(again))) == str(again)


@pytest.mark.parametrize("type_", ["builtins:int", "os:system", "builtins:object", ":", "x"])
def test_only_exceptions_are_made(type_):
    """A failure that names anything but an exception class gives the stand-in."""
    assert type(rebuild(Failure(type=type_, message="m", state=b'{"args":[],"dict":{}}'))) is UnknownRecordedError


@pytest.mark.parametrize("state", [None, b"", b"[]", b'{"args":3}', b'{"dict":{"x":{"$type":"nonsense"}}}'])
def test_a_damaged_state_has_a_stand_in(state):
    """A failure whose state is lost or damaged gives the stand-in with the recorded text."""
    again = rebuild(Failure(type="builtins:ValueError", message="it was", state=state))
    assert type(again) is UnknownRecordedError
    assert again.recorded_message == "it was"


def test_a_local_class_does_not_round_trip():
    """A class made inside a function cannot be found again: the failure says so at once."""

    class Local(Exception):
        pass

    assert not failure_of(Local("x"), FailurePhase.CALL).round_trips


def test_an_exception_whose_text_raises():
    """Taking a failure never raises, whatever the exception does."""
    assert failure_of(Mute("x"), FailurePhase.CALL).message == "<its text raised RuntimeError>"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with 3.11")
def test_exception_groups_come_back():
    """A group comes back with its members."""
    group = ExceptionGroup("several", [ValueError("a"), KeyError("b")])  # noqa: F821
    again = rebuild(failure_of(group, FailurePhase.CALL))
    assert again.message == "several"
    assert [type(error) for error in again.exceptions] == [ValueError, KeyError]
