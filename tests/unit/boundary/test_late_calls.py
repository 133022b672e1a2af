"""Code of a run that goes on after the run's end: live, unrecorded, told once a place."""

from __future__ import annotations

import contextvars
from contextlib import nullcontext

import pytest

from otel_agent_replay.boundary import clock
from otel_agent_replay.boundary import session as boundary_session
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import RECORD
from otel_agent_replay.boundary.session import Session, active, active_for_call
from otel_agent_replay.model import Kind, LossReason
from otel_agent_replay.payload.redaction import Redaction


class Observer:
    def __init__(self):
        self.losses = []

    def lost(self, loss):
        self.losses.append(loss)

    def inside(self, place):
        return nullcontext()

    def entered(self, place, attributes):
        pass

    def left(self, place, error, attributes):
        pass


@pytest.fixture
def run():
    return Session(
        run_id=b"r" * 16,
        root=Place.root("agent"),
        mode=RECORD,
        observer=Observer(),
        redaction=Redaction.default(),
    )


@pytest.fixture
def other():
    """Another run of the process, open all the while."""
    session = Session(
        run_id=b"o" * 16, root=Place.root("other"), mode=RECORD, observer=Observer(), redaction=Redaction.default()
    )
    session.open()
    yield session
    session.close()


def late_contexts(run, *names):
    """Return a context inside each named scope of the run, which has ended."""
    run.open()
    contexts = []
    with run.entered():
        for name in names:
            with run.scope(run.root.child(Kind.SCOPE, name), {}):
                contexts.append(contextvars.copy_context())
    run.close()
    return contexts


def test_a_late_call_is_nobodys_and_is_told_once_a_place(run):
    """However often it calls, each place of the ended run is one loss that names it."""
    one, two = late_contexts(run, "one", "two")
    for _ in range(3):
        assert one.run(active_for_call) is None
        assert two.run(active_for_call) is None
    assert [(loss.reason, loss.run_id, loss.detail) for loss in run.observer.losses] == [
        (LossReason.LATE, run.run_id, "run:agent#0/scope:one#0"),
        (LossReason.LATE, run.run_id, "run:agent#0/scope:two#0"),
    ]


def test_places_told_are_bounded(run):
    """A service that leaves a thread behind in each of many places does not fill its journal with that."""
    for context in late_contexts(run, *[f"step {number}" for number in range(100)]):
        context.run(active_for_call)
    assert len(run.observer.losses) == boundary_session._MOST_LATE
    assert run.observer.losses[-1].detail == "and at further places"


def test_what_opens_no_run_is_counted_too_while_others_are_open(run, other):
    """A late wait, thread or span belongs to nobody, and counts."""
    (context,) = late_contexts(run, "one")
    assert context.run(active) is None
    assert len(run.observer.losses) == 1
    assert other.observer.losses == []


def test_a_late_read_of_the_application_is_counted(run, other, library):
    """The clock read by a thread left behind is live; a library's read is none of ours and does not count."""
    (context,) = late_contexts(run, "one")
    source = "import time\ndef now():\n    return time.time()\n"
    ours = {"__name__": "application"}
    exec(source, ours)
    clock.install()
    try:
        context.run(library(source).now)
        assert run.observer.losses == []
        assert context.run(ours["now"]) > 0
    finally:
        clock.uninstall()
    assert [loss.reason for loss in run.observer.losses] == [LossReason.LATE]


def test_what_another_run_takes_is_not_late(run, other, monkeypatch):
    """In a process that is one run, the code that an agent left behind is that run's."""
    (context,) = late_contexts(run, "one")
    boundary_session.set_call_context(implicit=lambda opens: (other, other.root), suppressed=None)
    try:
        assert context.run(active_for_call) == (other, other.root)
    finally:
        boundary_session.set_call_context(implicit=None, suppressed=None)
    assert run.observer.losses == []
