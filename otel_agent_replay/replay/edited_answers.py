"""Answers that a person gave to single recorded steps: the results that a fork sets.

Owns which call of the fork is that step (the same number among the equal calls of its place), and that a read which is
asked again gives the same again, as long as nothing was written since: it is the same world.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from otel_agent_replay.boundary.crossing import Answer, Place, strand_label
from otel_agent_replay.errors import ConfigurationError, CrossingRefused, ReplayInterrupt
from otel_agent_replay.model import Call, Kind, MediaType, Outcome, OutcomeStatus, Payload, Read, RecordedRun
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.replay.by_arguments import ByArguments, RecordedAnswer
from otel_agent_replay.replay.continued import ContinuedPlayback
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry
from otel_agent_replay.replay.writes import Key, key_of, repeats

_Like = tuple[tuple[str, ...], Kind, str, bytes]
"""What equal calls of one place share."""


class _Edit(NamedTuple):
    step: int
    value: object


class EditedAnswers:
    """Answers the steps in `results` with these values; `beyond` is told of each, since it answers the calls around.

    Thread-safe. `shares` is to be called before anything is asked. Raises ConfigurationError for a step that is none,
    or whose result cannot be set.
    """

    def __init__(self, recorded: RecordedRun, results: Mapping[int, object], beyond: ByArguments) -> None:
        self._beyond = beyond
        self._edits: dict[_Like, dict[int, _Edit]] = {}
        self._asked: defaultdict[_Like, int] = defaultdict(int)
        self._given: dict[tuple[Key, int], _Edit] = {}
        self._playback: ContinuedPlayback | None = None
        self._lock = threading.Lock()
        self.used: list[int] = []
        if results:
            self._place(recorded, results)

    def _place(self, recorded: RecordedRun, results: Mapping[int, object]) -> None:
        numbers: defaultdict[_Like, int] = defaultdict(int)
        missing = set(results)
        for entry in Tape(recorded).entries:
            like = _like(entry)
            number = numbers[like]
            numbers[like] += 1
            if entry.step not in missing:
                continue
            missing.discard(entry.step)
            if entry.node.kind in (Kind.MODEL, Kind.HTTP):
                raise ConfigurationError(
                    f"step {entry.step} is a {entry.node.kind.value} call: only the results of tools, retrievals, "
                    "decisions and approvals can be set"
                )
            self._edits.setdefault(like, {})[number] = _Edit(entry.step, results[entry.step])
        if missing:
            raise ConfigurationError(f"run {recorded.run.run_id.hex()} has no step {min(missing)} to set a result of")

    def shares(self, playback: ContinuedPlayback) -> None:
        """Take the playback of what the fork shares: it numbers places, and knows which calls are skipped."""
        self._playback = playback
        for entry in playback.tape.skipped:
            like = _like(entry)
            if like in self._edits:
                self._asked[like] += 1

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the edited answer, None for a call that nobody edited."""
        parent = () if place.parent is None else place.parent.path
        edit = self._edit((parent, call.kind, call.name, call.digest)) or self._again(call)
        if edit is None:
            return None
        if self._playback is not None:
            self._playback.places.new(place)
        if repeats(call):
            with self._lock:
                self._given[key_of(call), self._beyond.written] = edit
        self._beyond.passed(call)
        data, round_trips, notes = encode(edit.value)
        result = Payload.of(data, MediaType.VALUE.value)
        outcome = Outcome(OutcomeStatus.OK, result, round_trips=round_trips, notes=notes)
        return RecordedAnswer(outcome, edit.step, same_request=False)

    def _edit(self, like: _Like) -> _Edit | None:
        edits = self._edits.get(like)
        if edits is None:
            return None
        with self._lock:
            number = self._asked[like]
            self._asked[like] += 1
            edit = edits.get(number)
            if edit is not None:
                self.used.append(edit.step)
        return edit

    def _again(self, call: Call) -> _Edit | None:
        """Return what the same read was answered with, for a thread of control that has left its recording."""
        if not self._given or not repeats(call):
            return None
        if self._playback is not None and self._playback.tape.left_in(strand_label()) is not None:
            return None
        return self._given.get((key_of(call), self._beyond.written))

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:  # noqa: ARG002 - the protocol's
        """Return None: reads are not edited."""
        return None

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what was not edited; other sources are asked first."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, "edited")


def _like(entry: Entry) -> _Like:
    return entry.node.path[:-1], entry.node.kind, entry.node.name, entry.call.digest
