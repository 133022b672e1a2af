"""Which recorded run a run is that replayed code begins: agents that call agents.

Owns how the recorded runs of a process lie inside one another (a run's parent span is the place in its caller that
began it), and which of them is handed out when the code begins one. Judges nothing and opens nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_agent_replay import semconv
from otel_agent_replay.model import Kind, RecordedRun, RecordedSpan
from otel_agent_replay.replay.tape import unnumbered
from otel_agent_replay.replay.tape_entry import Path


@dataclass(frozen=True, slots=True)
class Calling:
    """Where on record a run was begun: the run whose code did so (b"": nobody's on record), and the place in it.

    `strand` is the thread of control that did so. `below` tells that the place lies inside a crossing: when that one is
    answered, nobody begins this run.
    """

    caller: bytes = b""
    path: Path = ()
    strand: str = ""
    below: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that code begins now: its agent, the digest of its input (None: unknown), and where, as in `Calling`."""

    agent: str
    input_digest: bytes | None = None
    caller: bytes = b""
    path: Path = ()
    strand: str = ""


class RunsOnRecord:
    """The recorded runs that may be begun, each handed out once. Not thread-safe: ask under a lock.

    Of the runs of that agent which the same caller began, the one that was begun at the same place with the same input
    is meant, of several that of the same thread of control, else the first; where no input fits, the first one at that
    place.
    """

    def __init__(self, recordings: Sequence[RecordedRun]) -> None:
        self._recorded = {recorded.run.run_id: recorded for recorded in recordings}
        self._calling = _callings(recordings)
        self._waiting: defaultdict[str, list[RecordedRun]] = defaultdict(list)
        for recorded in recordings:
            self._waiting[recorded.run.agent].append(recorded)

    def take(self, begun: Begun) -> RecordedRun | None:
        """Hand out the recorded run that this one is, or None."""
        waiting = self._waiting.get(begun.agent)
        if not waiting:
            return None
        of_caller = [one for one in waiting if self.calling(one).caller == begun.caller]
        if not of_caller:
            # Who began a run is not always on record, so that one of nobody's may be meant, and the other way round.
            of_caller = [one for one in waiting if not (begun.caller and self.calling(one).caller)]
        of_caller = [one for one in of_caller if not self.calling(one).below or self._is_there(one, begun)]
        if not of_caller:
            return None
        found = min(of_caller, key=lambda one: self._distance(one, begun))
        waiting.remove(found)
        return found

    def calling(self, recorded: RecordedRun) -> Calling:
        """Return where a run was begun."""
        return self._calling.get(recorded.run.run_id, _NOWHERE)

    def is_waiting(self, recorded: RecordedRun) -> bool:
        """Whether it was not handed out."""
        return any(one is recorded for one in self._waiting.get(recorded.run.agent, ()))

    def outermost(self, recorded: RecordedRun) -> RecordedRun:
        """Return the run in whose code it began that no other run's code began: itself, where that is so."""
        seen = {recorded.run.run_id}
        while (caller := self.calling(recorded).caller) and caller not in seen:
            seen.add(caller)
            recorded = self._recorded[caller]
        return recorded

    def inner_of(self, run_id: bytes) -> Iterator[RecordedRun]:
        """Yield the runs that the code of a run began when its crossings are answered, and the code of those."""
        for recorded in self._recorded.values():
            calling = self.calling(recorded)
            if calling.caller == run_id and not calling.below and recorded.run.run_id != run_id:
                yield recorded
                yield from self.inner_of(recorded.run.run_id)

    def _is_there(self, recorded: RecordedRun, begun: Begun) -> bool:
        return unnumbered(self.calling(recorded).path) == unnumbered(begun.path)

    def _distance(self, recorded: RecordedRun, begun: Begun) -> tuple[bool, ...]:
        calling = self.calling(recorded)
        known = input_digest(recorded)
        same_input = known is None or begun.input_digest is None or known == begun.input_digest
        other_thread = calling.strand != begun.strand
        return not self._is_there(recorded, begun), not same_input, calling.path != begun.path, other_thread


def input_digest(recorded: RecordedRun) -> bytes | None:
    """Return the digest of a run's input, None where it is not on record."""
    return None if recorded.input is None else recorded.input.digest


def is_inside(recorded: RecordedRun, target: RecordedRun) -> bool:
    """Whether a run of the same trace can have been begun by the target's code: in its time, by its process."""
    run, outer = recorded.run, target.run
    processes = {outer.process, *(attempt.process for attempt in target.attempts)}
    ends = outer.ended_ns or run.started_ns
    return not run.replay and run.process in processes and outer.started_ns <= run.started_ns <= ends


_NOWHERE = Calling()


def _callings(recordings: Sequence[RecordedRun]) -> dict[bytes, Calling]:
    if len(recordings) < 2:
        return {}
    spans: dict[bytes, tuple[RecordedRun, RecordedSpan]] = {}
    roots: dict[bytes, RecordedSpan] = {}
    crossings: dict[bytes, set[Path]] = {}
    for recorded in recordings:
        run_id = recorded.run.run_id
        crossings[run_id] = {node.path for node in recorded.nodes if node.kind.is_crossing}
        for item in (*recorded.superseded, *recorded.spans):
            spans[item.span.span_id] = recorded, item
            if item.node is not None and item.node.kind is Kind.RUN:
                roots.setdefault(run_id, item)
        for attempt in recorded.attempts:
            if run_id in roots:
                spans.setdefault(attempt.span_id, (recorded, roots[run_id]))
    found = {}
    for run_id, root in roots.items():
        above = _node_above(root, spans)
        if above is not None and above[0] != run_id:
            caller, path = above
            below = any(path[:length] in crossings[caller] for length in range(1, len(path) + 1))
            strand = root.span.attributes.get(semconv.CALLER_STRAND, "")
            found[run_id] = Calling(caller, path, str(strand), below)
    return found


def _node_above(item: RecordedSpan, spans: dict[bytes, tuple[RecordedRun, RecordedSpan]]) -> tuple[bytes, Path] | None:
    """Return the run and path of the nearest span of ours that a span lies in; spans of others may lie between."""
    seen: set[bytes] = set()
    above = item.span.parent_span_id
    while above in spans and above not in seen:
        seen.add(above)
        recorded, found = spans[above]
        if found.node is not None:
            return recorded.run.run_id, found.node.path
        above = found.span.parent_span_id
    return None
