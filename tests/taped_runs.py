"""Runs of small agents, recorded in memory and played back: what the replay tests share."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import EXACT, RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.boundary.tools import Declaration, call, call_async
from otel_agent_replay.model import (
    AnswerSource,
    Kind,
    MediaType,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    RecordedRun,
    RecordedSpan,
    Run,
    SideEffect,
    Span,
    new_run_id,
    new_span_id,
    new_trace_id,
)
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.tape import Tape

LIMIT_S = 60.0
"""How long a replay that should take no time may take on a busy machine."""


class MemoryRecorder:
    """An observer that keeps a run in memory."""

    wants_facts = True

    def __init__(self, run_id):
        self.run_id = run_id
        self.trace_id = new_trace_id()
        self.lock = threading.Lock()
        self.found = {}  # path -> [node, start_ns, end_ns, reads]

    def _open(self, place, call=None, source=AnswerSource.LIVE):
        from otel_agent_replay.boundary.crossing import strand_label

        node = Node(
            self.run_id, place.kind, place.name, place.path, place.sequence, step=place.step, call=call,
            source=source, strand=strand_label(),
        )  # fmt: skip
        with self.lock:
            self.found[place.path] = [node, time.time_ns(), 0, []]

    def _close(self, place, outcome):
        with self.lock:
            slot = self.found[place.path]
            slot[0] = replace(slot[0], outcome=outcome, end_sequence=place.next_sequence())
            slot[2] = time.time_ns()

    def began(self, crossing):
        self._open(crossing.place, crossing.call, crossing.source)

    def ended(self, crossing, outcome):
        self._close(crossing.place, outcome)

    def entered(self, place, attributes):
        self._open(place)

    def left(self, place, error, attributes):
        self._close(place, Outcome(OutcomeStatus.OK))

    def read(self, place, read):
        with self.lock:
            self.found[place.path][3].append(read)

    def inside(self, place):
        return contextlib.nullcontext()

    def recorded(self, agent, *, died=False):
        with self.lock:
            slots = list(self.found.values())
        spans, payloads = [], {}
        for node, start, end, reads in sorted(slots, key=lambda slot: slot[0].sequence):
            outcome = node.outcome or Outcome(OutcomeStatus.PENDING)
            if outcome.result is not None:
                payloads[outcome.result.digest] = outcome.result.data
                outcome = replace(outcome, result=outcome.result.without_data())
            call = node.call
            if call is not None:
                payloads[call.request.digest] = call.request.data
                call = replace(call, request=call.request.without_data())
            kept = replace(node, outcome=outcome, call=call, reads=tuple(reads))
            spans.append(RecordedSpan(Span(self.trace_id, new_span_id(), node.name, start, end), kept))
        run = Run(self.run_id, self.trace_id, spans[0].span.span_id, agent, spans[0].span.start_ns)
        return RecordedRun(run, spans, payloads.get)


def _value(value):
    return Payload.of(encode(value).data, MediaType.VALUE.value)


def _session(mode, answerers=None, agent="agent"):
    run_id = new_run_id()
    observer = MemoryRecorder(run_id)
    root = Place.root(agent)
    session = Session(
        run_id=run_id, root=root, mode=mode, observer=observer, redaction=Redaction(), answerers=answerers
    )
    observer._open(root)
    return session, observer, root


def _run(session, observer, root, agent):
    session.open()
    try:
        with session.entered():
            result = agent()
            if asyncio.iscoroutine(result):
                result = asyncio.run(result)
        observer._close(root, Outcome(OutcomeStatus.OK, result=_value(result)))
    finally:
        session.close()
    return result


def record(agent):
    """Run `agent` live; return what it returned and the recording."""
    session, observer, root = _session(RECORD)
    result = _run(session, observer, root, agent)
    return result, observer.recorded("agent")


class Replayed:
    """One replay: its result, the tape, the playback and its own recording."""

    def __init__(self, recorded, agent, *, volatile=()):
        self.tape = Tape(recorded)
        self.playback = Playback(self.tape, volatile=volatile)
        session, observer, root = _session(EXACT, {AnswerSource.TAPE: self.playback})
        self.session = session
        try:
            self.result = _run(session, observer, root, agent)
        finally:
            self.recording = observer.recorded("agent")


def replayed_in_time(recorded, agent):
    """A replay in a thread of its own; one that waits for ever fails."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(Replayed, recorded, agent).result(LIMIT_S)


def reads_of(recorded, prefix):
    """The reads whose names begin so, in the order in which they were made."""
    reads = (read for node in recorded.nodes for read in node.reads if read.name.startswith(prefix))
    return sorted(reads, key=lambda read: read.sequence)


def tool(name, function, *parameters, kind=Kind.TOOL):
    """Declare a plain function; return what calls it across the boundary when a run is active."""
    from otel_agent_replay.boundary.session import active

    declaration = Declaration(kind, name, SideEffect.READ, function, parameters)

    def crossing(*args, **kwargs):
        here = active()
        assert here is not None, "called outside a run"
        return call(declaration, here, args, kwargs)

    return crossing


def tool_async(name, function, *parameters, kind=Kind.TOOL):
    """The same for a coroutine function."""
    from otel_agent_replay.boundary.session import active

    declaration = Declaration(kind, name, SideEffect.READ, function, parameters)

    async def crossing(*args, **kwargs):
        here = active()
        assert here is not None, "called outside a run"
        return await call_async(declaration, here, args, kwargs)

    return crossing
