"""Whether what a re-run read live is what was read then: external data that drifted is no doing of the model."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from otel_agent_replay.boundary.crossing import Crossing
from otel_agent_replay.model import AnswerSource, Outcome, OutcomeStatus, RecordedRun, SideEffect
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry
from otel_agent_replay.replay.writes import Key, key_of, repeats, writes_in


@dataclass(frozen=True, slots=True)
class Drift:
    """A live read (`step` of the re-run) that was answered otherwise than the same call on record (`recorded_step`).

    With `other_writes` the recorded one was made after other writes than the re-run has made: it may be those.
    """

    name: str
    step: int | None
    recorded_step: int | None
    other_writes: bool


class DriftCheck:
    """Holds live reads against one recording. Thread-safe.

    `written` tells what the re-run has written so far. `checked` live reads were on record, `unknown` were not.
    """

    def __init__(self, recorded: RecordedRun, written: Callable[[], int]) -> None:
        self._written = written
        self._known: defaultdict[Key, list[tuple[Entry, int]]] = defaultdict(list)
        entries = Tape(recorded).entries
        before = writes_in(entries).before
        for entry in entries:
            outcome = entry.node.outcome
            if repeats(entry.call) and outcome is not None and outcome.status is OutcomeStatus.OK:
                self._known[key_of(entry.call)].append((entry, before[id(entry)]))
        self._lock = threading.Lock()
        self.checked = 0
        self.unknown = 0
        self.drifted: list[Drift] = []

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """Look at a crossing that has ended."""
        call = crossing.call
        if crossing.source is not AnswerSource.LIVE or call.side_effect is not SideEffect.READ or not repeats(call):
            return
        if outcome.status is not OutcomeStatus.OK or is_below(crossing):
            return
        known = self._known.get(key_of(call), [])
        written = self._written()
        same_world = [entry for entry, before in known if before == written]
        nearest = same_world or [entry for entry, _ in known]
        with self._lock:
            if not nearest:
                self.unknown += 1
                return
            self.checked += 1
            said = _digest(outcome)
            if all(_digest(entry.node.outcome) != said for entry in nearest):
                self.drifted.append(Drift(call.name, crossing.place.step, nearest[-1].node.step, not same_world))


def is_below(crossing: Crossing) -> bool:
    """Whether a crossing happened inside another one."""
    above = crossing.place.parent
    while above is not None and not above.kind.is_crossing:
        above = above.parent
    return above is not None


def _digest(outcome: Outcome | None) -> bytes:
    return b"" if outcome is None or outcome.result is None else outcome.result.digest
