"""Answers by arguments: what a recording says of the same call, wherever in the run it was made.

For runs that left their tape (forks, re-runs). Owns no place, no order and no strand; those are exact playback's. What
was read before a write says nothing of after it, so a read is answered only where the run has made just the writes
that the recording had made by then, whatever tool they went through: nobody knows which read a write changes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from functools import cached_property

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Answer, Place, WholeAnswer
from otel_agent_replay.errors import CrossingRefused, DamagedRecording, MissingPayload, ReplayInterrupt, TapeUnreadable
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, Read, RecordedRun
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry
from otel_agent_replay.replay.virtual_clock import VirtualClock
from otel_agent_replay.replay.writes import (
    NOTHING_WRITTEN,
    Key,
    changes_the_world,
    key_of,
    repeats,
    with_write,
    writes_in,
)

_ENDED = frozenset({OutcomeStatus.OK, OutcomeStatus.ERROR})
_BULK = frozenset(kind for kind in Kind if kind.is_bulk)
_NUMPY, _NUMPY_ENTROPY = "numpy.", "numpy.random.entropy"


class ByArguments:
    """Answers the calls of one recorded run by kind, name and request digest. Thread-safe.

    A read is answered by its recordings in their order, then by the last one again, those apart that were made after
    other writes than this run has made. Whatever else (a write, an approval, a draw of the model) is answered by each
    of its recordings once. `until` is the last sequence number of what this run shares with the recording (a fork's
    past): what was written there is written, and what was asked there is spent. `clock` is the run's own: it says
    which recorded times may be shown again; without one none is.
    """

    def __init__(self, recorded: RecordedRun, *, until: int = 0, clock: VirtualClock | None = None) -> None:
        self._recorded = recorded
        self._until = until
        self._clock = clock
        self._lock = threading.Lock()
        self._graphs: set[str] = set()  # threads of LangGraph's that have a state of this run's own

    @cached_property
    def _index(self) -> _Index:
        """What can be asked for; made when first asked, since a fork is ready before it needs any of it."""
        return _Index(self._recorded, self._until)

    @property
    def written(self) -> int:
        """What this run has written so far, as `writes` counts it."""
        with self._lock:
            return self._index.written

    def answer(self, call: Call, place: Place) -> Answer | None:  # noqa: ARG002 - the protocol's
        """Return what the recording says of this call, or None. A write counts as made, whoever then answers it."""
        if self._graphs and call.name.startswith("langgraph.") and self._is_of_own_graph(call):
            return None
        entry = self._find(call)
        if entry is None:
            return None
        try:
            outcome = self._index.tape.outcome(entry)
        except (MissingPayload, DamagedRecording) as error:
            raise TapeUnreadable(entry.node.step, str(error)) from error
        return RecordedAnswer(outcome, entry.node.step, same_request=True)

    def passed(self, call: Call) -> None:
        """Somebody else answered `call`: what the recording has of it is used up, and a write counts as made."""
        self._find(call)

    def goes_beyond(self, call: Call) -> None:
        """This run makes a call that no recording answered: the state that a graph saves is its own from then on.

        What a saver of LangGraph's said then of that thread is then not given again: the run's own saver knows better.
        """
        thread = call.attributes.get(semconv.LANGGRAPH_THREAD_ID)
        if call.kind is Kind.CHECKPOINT and thread is not None:
            self._graphs.add(str(thread))

    def _is_of_own_graph(self, call: Call) -> bool:
        asked = decode(call.request.data or b"{}")
        return isinstance(asked, dict) and str(asked.get("thread_id")) in self._graphs

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return the next read of that name that was made at this place: what it drew, saw on a clock, or found set.

        An environment variable is as it was last read where this place has none. None for what the recording does not
        have, and for a time that has passed for this run.
        """
        with self._lock:
            here = self._index.reads.get((place.path, strand, name))
            found = here.popleft() if here else self._index.environment.get(name) if kind is Kind.ENV else None
        if found is None or found.masked:
            return None
        if kind is Kind.CLOCK and (self._clock is None or not self._clock.takes_up(found)):
            return None
        return found._replace(strand=strand, sequence=place.next_sequence())

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what the recording does not have."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, "fork")

    def _find(self, call: Call) -> Entry | None:
        with self._lock:
            return self._index.take(call)


class _Index:
    """The exchanges of one recording by what was asked, and what the run that asks has written so far."""

    def __init__(self, recorded: RecordedRun, until: int) -> None:
        self.tape = Tape(recorded)
        self.written = NOTHING_WRITTEN
        self.environment = {read.name: read for node in recorded.nodes for read in node.reads if read.kind is Kind.ENV}
        self.reads = _reads_in(recorded, until)
        self._waiting: dict[_Lookup, deque[Entry]] = {}
        self._last: dict[_Lookup, Entry] = {}
        written = writes_in(self.tape.entries)
        for entry in self.tape.entries:
            shared = entry.node.sequence <= until
            if shared and id(entry) in written.made:
                self.written = with_write(self.written, entry.call)
            outcome = entry.node.outcome
            if outcome is None or outcome.status not in _ENDED:
                continue
            lookup = (key_of(entry.call), written.before[id(entry)] if repeats(entry.call) else NOTHING_WRITTEN)
            if shared:
                self._last[lookup] = entry
            else:
                self._waiting.setdefault(lookup, deque()).append(entry)

    def take(self, call: Call) -> Entry | None:
        """Hand out the exchange that answers `call`, and count what it writes."""
        again = repeats(call)
        lookup = (key_of(call), self.written if again else NOTHING_WRITTEN)
        if changes_the_world(call):
            self.written = with_write(self.written, call)
        waiting = self._waiting.get(lookup)
        if not waiting:
            return self._last.get(lookup) if again else None
        entry = waiting.popleft()
        self._last[lookup] = entry
        return entry


def _reads_in(recorded: RecordedRun, until: int) -> Mapping[tuple[tuple[str, ...], str, str], deque[Read]]:
    """Return the reads made after `until`, in order, by place, thread of control and name.

    What is told of the run's order and waits is no clock's. Of numpy's shared generator the states are recorded, each
    told by the one before: they are of use only as a whole.
    """
    found: dict[tuple[tuple[str, ...], str, str], deque[Read]] = {}
    for node in recorded.nodes:
        for read in node.reads:
            told = read.shows_time if read.kind is Kind.CLOCK else read.kind in _BULK
            whole = read.name.startswith(_NUMPY) and not read.name.startswith(_NUMPY_ENTROPY)
            if told and not whole and read.sequence > until:
                found.setdefault((node.path, read.strand, read.name), deque()).append(read)
    return found


class RecordedAnswer(WholeAnswer):
    """A recorded outcome without a turn in any order; implements `crossing.Answer`."""

    def __init__(self, outcome: Outcome, origin_step: int | None, *, same_request: bool) -> None:
        self.outcome = outcome
        self.origin_step = origin_step
        self.same_request = same_request

    def settle(self) -> None:
        """Wait for nothing."""

    async def settle_async(self) -> None:
        """Wait for nothing."""

    def done(self) -> None:
        """Tell nobody."""


_Lookup = tuple[Key, int]
