"""How a stopped replay ends its process."""

import sys

import pytest

from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.replay import stopped


@pytest.fixture
def hook(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: told.append(error))
    stopped.say_shortly()
    return sys.excepthook, told


def raised(error: BaseException) -> tuple:
    try:
        raise error
    except BaseException as caught:
        return type(caught), caught, caught.__traceback__


def test_a_departure_prints_the_place_in_the_application(hook, capsys) -> None:
    """One line with file, line and function stands in for the traceback."""
    excepthook, told = hook
    excepthook(*raised(ReplayDeparture(step=1, path=("run:a#0",), expected="x", came="y")))
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"{__file__}:" in line and "in raised" in line
    assert told == []


def test_another_exception_prints_as_ever(hook, capsys) -> None:
    """An ordinary exception goes to whoever printed exceptions before."""
    excepthook, told = hook
    excepthook(*raised(ValueError("no")))
    assert [kind for kind, _, _ in told] == [ValueError]
    assert capsys.readouterr().err == ""
