"""A stage for the hooks: an observer that keeps what it is told, and a tape that gives it back."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import EXACT, RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import AnswerSource, OutcomeStatus
from otel_agent_replay.payload.redaction import Redaction

_asyncio_sleep = asyncio.sleep


class Observer:
    """Keeps reads by place and ended crossings by path."""

    wants_facts = True

    def __init__(self):
        self.reads = []
        self.crossings = []

    def began(self, crossing):
        pass

    def ended(self, crossing, outcome):
        self.crossings.append((crossing, outcome))

    def entered(self, place, attributes):
        pass

    def left(self, place, error, attributes):
        pass

    def read(self, place, read):
        self.reads.append((place.path, read))

    def inside(self, place):
        return nullcontext()

    @property
    def names(self):
        return [read.name for _, read in self.reads]

    @property
    def values(self):
        return [read.value for _, read in self.reads]


class Tape:
    """Gives each recorded read and outcome back once, by place, strand and name."""

    def __init__(self, observer):
        self.reads = defaultdict(deque)
        for path, read in observer.reads:
            self.reads[path, read.strand, read.kind, read.name].append(read)
        self.outcomes = {crossing.place.path: outcome for crossing, outcome in observer.crossings}

    def answer(self, call, place):
        outcome = self.outcomes.pop(place.path, None)
        if outcome is None:
            return None

        async def settle_async():
            if outcome.status is OutcomeStatus.CANCELLED:
                await asyncio.Event().wait()
            await _asyncio_sleep(0)

        return SimpleNamespace(
            outcome=outcome, origin_step=1, settle=lambda: None, settle_async=settle_async, done=lambda: None
        )

    def read(self, kind, name, place, strand):
        waiting = self.reads[place.path, strand, kind, name]
        return waiting.popleft() if waiting else None

    def departed(self, call, place, read):
        return ReplayDeparture(step=None, path=place.path, expected="nothing", came=str(call or read))

    @property
    def left(self):
        return sum(map(len, self.reads.values())) + len(self.outcomes)


class Stage:
    """`record` runs a function in a recording session, `replay` in an exact one fed by the last recording."""

    def __init__(self):
        self.observer = Observer()
        self.tape = None
        self.redaction = Redaction.default()

    def session(self, mode, answerers=None):
        self.observer = Observer()
        return Session(
            run_id=b"r" * 16,
            root=Place.root("agent"),
            mode=mode,
            observer=self.observer,
            redaction=self.redaction,
            answerers=answerers,
        )

    def record(self, function, *args):
        return self._run(self.session(RECORD), function, args)

    def replay(self, function, *args):
        self.tape = Tape(self.observer)
        result = self._run(self.session(EXACT, {AnswerSource.TAPE: self.tape}), function, args)
        assert self.tape.left == 0, "the replay did not ask for all that was recorded"
        return result

    def both(self, function, *args):
        recorded = self.record(function, *args)
        return recorded, self.replay(function, *args)

    def _run(self, session, function, args):
        session.open()
        try:
            with session.entered():
                return function(*args)
        finally:
            session.close()


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def library(tmp_path):
    """Compile source as code of an installed package; returns its namespace."""

    def load(source, package="somelib"):
        file = tmp_path / "site-packages" / package / "module.py"
        namespace = {"__name__": f"{package}.module", "__file__": str(file)}
        exec(compile(source, str(file), "exec"), namespace)
        return SimpleNamespace(**namespace)

    return load
