"""Modes as data: for each kind of crossing and side effect, the ordered answer sources.

A mode is a table, not code. The engine (`session`) tries a cell's sources in turn; when none answers,
the mode's `off_tape` rule applies. `Kind.HTTP` below a tool follows the same table: a tool answered from
the tape runs no code, so nothing happens below it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from otel_agent_replay.model.kinds import AnswerSource, Kind, SideEffect

Cell = tuple[AnswerSource, ...]


class OffTape(str, enum.Enum):
    """What happens to a crossing that no source of its cell could answer."""

    STOP = "stop"  # the session is interrupted: ReplayDeparture
    NOT_APPLICABLE = "not_applicable"  # some source always answers


@dataclass(frozen=True, slots=True)
class Mode:
    """A row of cells. `cells` is keyed by (kind, side effect), or (kind, None) for every side effect of it."""

    name: str
    cells: Mapping[tuple[Kind, SideEffect | None], Cell]
    off_tape: OffTape

    def sources(self, kind: Kind, side_effect: SideEffect) -> Cell:
        """Return the ordered answer sources. Raises KeyError when the table has no cell for `kind`."""
        cell = self.cells.get((kind, side_effect))
        return self.cells[(kind, None)] if cell is None else cell


# A checkpoint crosses nothing, but its state is held against the tape like a request.
_ANSWERED = (*(kind for kind in Kind if kind.is_crossing), Kind.CHECKPOINT)

RECORD = Mode("record", {(kind, None): (AnswerSource.LIVE,) for kind in _ANSWERED}, OffTape.NOT_APPLICABLE)

EXACT = Mode("exact", {(kind, None): (AnswerSource.TAPE,) for kind in _ANSWERED}, OffTape.STOP)

MODES: Mapping[str, Mode] = {mode.name: mode for mode in (RECORD, EXACT)}
