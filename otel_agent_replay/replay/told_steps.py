"""What became of each step of a run that goes on: skipped, replayed, edited, live. Data, and how it is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.boundary.crossing import Crossing
from otel_agent_replay.model import AnswerSource, Word
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry


class How(Word):
    """How a step came about."""

    SKIPPED = "skipped"  # before the checkpoint that was entered: shared with the recording, not executed
    REPLAYED = "replayed"  # answered with what was recorded, by this run or another; nothing was called
    EDITED = "edited"  # answered with the result that a person gave
    LIVE = "live"  # called
    REHEARSED = "rehearsed"  # its declared dry run was called in its place
    NOT_ASKED = "not_asked"  # on the part of the recording that is shared, and not asked for


_OF_SOURCES = {
    AnswerSource.LIVE: How.LIVE,
    AnswerSource.WAIT: How.LIVE,
    AnswerSource.DRY_RUN: How.REHEARSED,
    AnswerSource.EDITED: How.EDITED,
}


@dataclass(frozen=True, slots=True)
class ToldStep:
    """One step. `source` is who answered it, `origin_step` the recorded step that the answer came from (None: none).

    `request_edited` tells that the request was changed on its way out.
    """

    step: int
    kind: str
    name: str
    how: How
    source: str
    origin_step: int | None = None
    request_edited: bool = False

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> ToldStep:
        """Return the step that `dataclasses.asdict` made the members of. Raises what wrong members raise."""
        return cls(**{**found, "how": How(found["how"])})


def own_step(crossing: Crossing) -> ToldStep:
    """Return what is told of a step that the shared recording did not answer."""
    call, answer, source = crossing.call, crossing.answer, crossing.source
    return ToldStep(
        crossing.place.step or 0,
        str(call.kind),
        call.name,
        _OF_SOURCES.get(source, How.REPLAYED),
        str(source),
        None if answer is None else answer.origin_step,
        bool(call.asked),
    )


def all_steps(tape: Tape, own: Iterable[ToldStep]) -> tuple[ToldStep, ...]:
    """Return every step of the run in order: those of the shared recording, and its `own`.

    A call that was made again under its recorded step counts as its own.
    """
    again = {one.step: one for one in own}
    found = [_told(entry, How.SKIPPED) for entry in tape.skipped if entry.step]
    above: dict[tuple[str, ...], How] = {}
    for entry in tape.entries:
        path = entry.node.path
        how = How.REPLAYED if entry.taken else How.NOT_ASKED
        if entry.below:  # nobody asks for what lies in an answered call
            how = next((above[path[:length]] for length in range(len(path) - 1, 0, -1) if path[:length] in above), how)
        above[path] = how
        if entry.step and entry.step not in again:
            found.append(_told(entry, how))
    return tuple(sorted((*found, *again.values()), key=lambda one: one.step))


def _told(entry: Entry, how: How) -> ToldStep:
    source = "" if how is How.NOT_ASKED else str(AnswerSource.TAPE)
    return ToldStep(entry.step, str(entry.call.kind), entry.call.name, how, source, entry.step)
