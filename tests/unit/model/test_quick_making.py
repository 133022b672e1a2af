"""Calls and outcomes made the quick way are the frozen ones."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from otel_agent_replay.model import (
    Call,
    Kind,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
    make_call,
    make_outcome,
)

_REQUEST = Payload.of(b"{}", "application/json")


def test_a_call_made_quickly_is_an_ordinary_call():
    """It has the class, fields, defaults and equality of one made by the class itself."""
    made = make_call(Kind.TOOL, "refund", SideEffect.WRITE, _REQUEST, round_trips=False)
    plain = Call(Kind.TOOL, "refund", SideEffect.WRITE, _REQUEST, round_trips=False)
    assert type(made) is Call
    assert made == plain
    assert dataclasses.replace(made, name="x") == dataclasses.replace(plain, name="x")
    assert pickle.loads(pickle.dumps(made)) == plain


def test_an_outcome_made_quickly_is_an_ordinary_outcome():
    """It compares equal to one made by the class itself, defaults included."""
    made = make_outcome(OutcomeStatus.OK, _REQUEST)
    assert type(made) is Outcome
    assert made == Outcome(OutcomeStatus.OK, _REQUEST)


def test_what_is_made_quickly_is_frozen():
    """Nobody can change a field of it afterwards."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_outcome(OutcomeStatus.OK).status = OutcomeStatus.ERROR
    with pytest.raises(dataclasses.FrozenInstanceError):
        del make_call(Kind.TOOL, "x", SideEffect.NONE, _REQUEST).name
