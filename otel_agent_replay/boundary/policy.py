"""Modes as data: for each kind of crossing and side effect, the ordered answer sources.

A mode is a table, not code. The engine (`session`) tries a cell's sources in turn; a source that nobody plugged in (no
ledger, no pool) is passed over; when none answers, the mode's `off_tape` rule applies.

    crossing            record         exact  resume               fork, beyond its step     component
    model               live           tape   tape, live           live                      fixture
    tool: none          live           tape   tape, live           live                      live
    tool: read          live           tape   tape, live           tape, pool, live          fixture
    tool: write         ledger, live   tape   tape, ledger, live   tape, dry run, refused    fixture
    tool: external      ledger, live   tape   tape, ledger, live   tape, dry run, refused    fixture
    http                as a tool of its side effect; below a tool that is called through, as that tool
    retrieval           live           tape   tape, live           tape, pool, live          fixture
    decision            live           tape   tape, live           live                      fixture
    clock               live           tape   tape, live           tape, virtual, live       virtual
    random, uuid        live           tape   tape, live           tape, seeded, live        seeded
    env                 live           tape   tape, live           tape, live                fixture, live
    sleep               live           tape   tape, live           live (capped)             virtual
    approval            live           tape   tape, ledger, wait   wait                      fixture
    input               live           tape   tape, wait           wait                      fixture
    checkpoint          live           tape   tape, live           live                      live
    off the tape        -              stop   -                    -                         stop

`regression` is the fork's column without a prefix, where an approval of another action and a user's turn that no longer
fits are refused, and so is plain HTTP that reads but that nobody declared: it would tell the world of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_agent_replay.model import Word
from otel_agent_replay.model.kinds import AnswerSource, Kind, SideEffect

Cell = tuple[AnswerSource, ...]
Cells = Mapping[tuple[Kind, SideEffect | None], Cell]

CALLED_THROUGH = frozenset({AnswerSource.LIVE, AnswerSource.WAIT, AnswerSource.DRY_RUN})
"""Sources for which the interceptor calls something: the real thing, a person, the tool's declared rehearsal."""


class OffTape(Word):
    """What happens to a crossing that no source of its cell could answer."""

    STOP = "stop"  # the session is interrupted: ReplayDeparture
    NOT_APPLICABLE = "not_applicable"  # some source always answers, or refuses


@dataclass(frozen=True, slots=True)
class Mode:
    """A row of cells. `cells` is keyed by (kind, side effect), or (kind, None) for every other side effect of it.

    `prefix` are the sources that are asked before the cells for every crossing: those of a run that is shared with its
    origin up to some step. `continues` tells that the run goes on from a recording and shares it: what the tape
    (of the prefix, if there is one) answers is not recorded again. `below_tool` answers plain HTTP inside a tool that
    is called through and said that it touches the world: what such a tool does is its own affair. `named` are cells of
    single crossings, by name and side effect, that come before those of their kind. `asks_tape_alone` tells whether the
    tape is the only source of every cell, `reads_live` whether bulk reads are always live.
    """

    name: str
    cells: Cells
    off_tape: OffTape = OffTape.NOT_APPLICABLE
    prefix: Cell = ()
    continues: bool = False
    below_tool: Cell = (AnswerSource.LIVE,)
    named: Mapping[tuple[str, SideEffect], Cell] = field(default_factory=dict)
    asks_tape_alone: bool = field(init=False, compare=False, default=False)
    reads_live: bool = field(init=False, compare=False, default=False)

    def __post_init__(self) -> None:
        cells = (*self.cells.values(), *self.named.values(), self.below_tool)
        alone = not self.prefix and not self.continues and all(cell == (AnswerSource.TAPE,) for cell in cells)
        bulk = [self.cells[kind, None] for kind in Kind if kind.is_bulk and (kind, None) in self.cells]
        object.__setattr__(self, "asks_tape_alone", alone)  # once a mode, not once a run
        object.__setattr__(self, "reads_live", all(cell[0] is AnswerSource.LIVE for cell in bulk))

    @property
    def is_replay(self) -> bool:
        """Whether what happens in this mode is no work of production: everything it emits says so."""
        return self.name not in ("record", "resume")

    @property
    def stands_alone(self) -> bool:
        """Whether its runs are kept apart from those that they came from, so that nothing of them may lie there."""
        return self.name == "regression"

    def sources(self, kind: Kind, side_effect: SideEffect) -> Cell:
        """Return the ordered answer sources. Raises KeyError when the table has no cell for `kind`."""
        cell = self.cells.get((kind, side_effect))
        return self.cells[(kind, None)] if cell is None else cell


_S = AnswerSource
# A checkpoint crosses nothing, but its state is held against the tape like a request.
_ANSWERED = (*(kind for kind in Kind if kind.is_crossing), Kind.CHECKPOINT)
_ACTS = (Kind.TOOL, Kind.HTTP)
_CHANGES = (SideEffect.WRITE, SideEffect.EXTERNAL)


def _all(*sources: AnswerSource) -> dict[tuple[Kind, SideEffect | None], Cell]:
    return dict.fromkeys(((kind, None) for kind in _ANSWERED), sources)


def _changing(*sources: AnswerSource) -> dict[tuple[Kind, SideEffect | None], Cell]:
    return dict.fromkeys(((kind, effect) for kind in _ACTS for effect in _CHANGES), sources)


RECORD = Mode("record", {**_all(_S.LIVE), **_changing(_S.LEDGER, _S.LIVE)})

EXACT = Mode("exact", _all(_S.TAPE), OffTape.STOP, below_tool=(_S.TAPE,))

RESUME = Mode(
    "resume",
    {
        **_all(_S.TAPE, _S.LIVE),
        **_changing(_S.TAPE, _S.LEDGER, _S.LIVE),
        (Kind.APPROVAL, None): (_S.TAPE, _S.LEDGER, _S.WAIT),
        (Kind.INPUT, None): (_S.TAPE, _S.WAIT),
    },
    continues=True,
    below_tool=(_S.TAPE, _S.LIVE),
)

_BEYOND: Cells = {
    **_all(_S.LIVE),
    **dict.fromkeys(((kind, effect) for kind in _ACTS for effect in (SideEffect.READ,)), (_S.TAPE, _S.POOL, _S.LIVE)),
    **_changing(_S.TAPE, _S.DRY_RUN, _S.REFUSED),
    (Kind.RETRIEVAL, None): (_S.TAPE, _S.POOL, _S.LIVE),
    (Kind.CLOCK, None): (_S.TAPE, _S.VIRTUAL, _S.LIVE),
    (Kind.RANDOM, None): (_S.TAPE, _S.SEEDED, _S.LIVE),
    (Kind.UUID, None): (_S.TAPE, _S.SEEDED, _S.LIVE),
    (Kind.ENV, None): (_S.TAPE, _S.LIVE),
    (Kind.PROCESS, None): (_S.TAPE, _S.REFUSED),
    (Kind.FILE, None): (_S.TAPE, _S.REFUSED),
}

REGRESSION = Mode(
    "regression",
    {
        **_BEYOND,
        (Kind.HTTP, SideEffect.READ): (_S.TAPE, _S.POOL, _S.REFUSED),
        (Kind.APPROVAL, None): (_S.TAPE, _S.REFUSED),
        (Kind.INPUT, None): (_S.TAPE, _S.FIXTURE, _S.REFUSED),
    },
)

FORK = Mode(
    "fork",
    {**_BEYOND, (Kind.APPROVAL, None): (_S.WAIT,), (Kind.INPUT, None): (_S.WAIT,)},
    prefix=(_S.EDITED, _S.TAPE),
    continues=True,
)

COMPONENT = Mode(
    "component",
    {
        **_all(_S.FIXTURE),
        (Kind.TOOL, SideEffect.NONE): (_S.LIVE,),
        (Kind.CHECKPOINT, None): (_S.LIVE,),
        (Kind.CLOCK, None): (_S.VIRTUAL,),
        (Kind.SLEEP, None): (_S.VIRTUAL,),
        (Kind.RANDOM, None): (_S.SEEDED,),
        (Kind.UUID, None): (_S.SEEDED,),
        (Kind.ENV, None): (_S.FIXTURE, _S.LIVE),
    },
    OffTape.STOP,
    below_tool=(_S.FIXTURE,),
)

MODES: Mapping[str, Mode] = {mode.name: mode for mode in (RECORD, EXACT, RESUME, FORK, REGRESSION, COMPONENT)}
