"""A session that records into memory, and one that plays it back: the least that plugs into the boundary."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from otel_agent_replay.boundary.crossing import Crossing, Place, WholeAnswer
from otel_agent_replay.boundary.policy import EXACT, RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import AnswerSource, Call, Chunk, HttpResponseHead, Loss, Outcome, OutcomeStatus
from otel_agent_replay.payload.redaction import Redaction


@dataclass
class Recorded:
    call: Call
    outcome: Outcome
    parts: list[tuple[bytes, tuple[Chunk, ...]]] = field(default_factory=list)


class MemoryObserver:
    """Keeps every crossing with its outcome, in order of their ends."""

    wants_facts = True

    def __init__(self):
        self.begun: list[Crossing] = []
        self.exchanges: list[Recorded] = []
        self.losses: list[Loss] = []
        self.sent_calls: list[Call] = []
        self._parts: dict[int, list] = {}
        self.ended_event = threading.Event()

    def began(self, crossing):
        self.begun.append(crossing)

    def ended(self, crossing, outcome):
        self.exchanges.append(Recorded(crossing.call, outcome, self._parts.pop(id(crossing), [])))
        self.ended_event.set()

    def sent(self, crossing):
        self.sent_calls.append(crossing.call)

    def partial(self, crossing, head: HttpResponseHead, data, chunks):
        self._parts.setdefault(id(crossing), []).append((data, tuple(chunks)))

    def lost(self, loss):
        self.losses.append(loss)

    def entered(self, place, attributes):
        pass

    def left(self, place, error, attributes):
        pass

    def read(self, place, read):
        pass

    def inside(self, place: Place) -> AbstractContextManager[object]:
        return nullcontext()


class MemoryAnswer(WholeAnswer):
    def __init__(self, tape: MemoryTape, recorded: Recorded, step: int):
        self.outcome = recorded.outcome
        self.origin_step = step
        self._tape = tape

    def settle(self):
        self._tape.log.append(("settle", self.origin_step))

    async def settle_async(self):
        self._tape.log.append(("settle", self.origin_step))
        if self.outcome.status is OutcomeStatus.CANCELLED:
            await asyncio.get_running_loop().create_future()

    def done(self):
        self._tape.log.append(("done", self.origin_step))


class MemoryTape:
    """Answers a call with the first unused exchange of the same name and digest."""

    def __init__(self, exchanges: list[Recorded]):
        self.left = list(enumerate(exchanges))
        self.log: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    def answer(self, call, place):
        with self._lock:
            for position, (step, recorded) in enumerate(self.left):
                if (recorded.call.name, recorded.call.digest) == (call.name, call.digest):
                    del self.left[position]
                    return MemoryAnswer(self, recorded, step)
        return None

    def read(self, kind, name, place, strand):
        return None

    def departed(self, call, place, read):
        return ReplayDeparture(step=None, path=place.path, expected="what is on the tape", came=str(call and call.name))


def redaction() -> Redaction:
    return Redaction.default(key=b"0" * 32)


@contextmanager
def recording(rules: Redaction | None = None) -> Iterator[MemoryObserver]:
    """Run the enclosed code as a recorded run."""
    observer = MemoryObserver()
    session = Session(
        run_id=b"r" * 16, root=Place.root("agent"), mode=RECORD, observer=observer, redaction=rules or redaction()
    )
    session.open()
    try:
        with session.entered():
            yield observer
    finally:
        session.close()


@contextmanager
def replaying(exchanges: list[Recorded], rules: Redaction | None = None) -> Iterator[tuple[MemoryTape, MemoryObserver]]:
    """Run the enclosed code against what was recorded; nothing may leave."""
    observer, tape = MemoryObserver(), MemoryTape(exchanges)
    session = Session(
        run_id=b"p" * 16,
        root=Place.root("agent"),
        mode=EXACT,
        observer=observer,
        redaction=rules or redaction(),
        answerers={AnswerSource.TAPE: tape},
    )
    session.open()
    try:
        with session.entered():
            yield tape, observer
    finally:
        session.close()
