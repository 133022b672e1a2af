"""The mode table is one table, and the engine does what it says: every mode, crossing and side effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from otel_agent_replay.boundary.crossing import Counters, Place, WholeAnswer
from otel_agent_replay.boundary.policy import CALLED_THROUGH, MODES, OffTape
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import CrossingRefused, ReplayDeparture
from otel_agent_replay.model import AnswerSource, Call, Kind, Outcome, OutcomeStatus, Payload, Read, SideEffect
from otel_agent_replay.payload.redaction import Redaction
from tests.support.tape_session import MemoryObserver

CROSSINGS = [kind for kind in Kind if (kind.is_crossing and not kind.is_bulk) or kind is Kind.CHECKPOINT]
BULK = [kind for kind in Kind if kind.is_bulk]
ASKED = [source for source in AnswerSource if source not in CALLED_THROUGH and source is not AnswerSource.REFUSED]


class Answer(WholeAnswer):
    origin_step = 1
    same_request = True

    def __init__(self, source):
        self.source = source
        self.outcome = Outcome(OutcomeStatus.OK)

    def settle(self):
        pass

    async def settle_async(self):
        pass

    def done(self):
        pass


@dataclass
class Source:
    """An answerer that says which source it is, and is told whether it has an answer."""

    source: AnswerSource
    has: bool
    asked: list = field(default_factory=list)

    def answer(self, call, place):
        self.asked.append(self.source)
        return Answer(self.source) if self.has else None

    def read(self, kind, name, place, strand):
        self.asked.append(self.source)
        return Read(kind, name, self.source.value) if self.has else None

    def departed(self, call, place, read):
        return ReplayDeparture(step=None, path=place.path, expected="", came="")


@dataclass
class Ledger(Source):
    def goes_on_from(self, continuation):
        pass

    def intend(self, call, place, terms):
        return self.answer(call, place)

    def decided(self, call, place):
        return self.answer(call, place)

    def passed(self, call, place, outcome, terms):
        pass

    def awaits(self, place, call):
        pass

    def granted(self, place, grant):
        pass

    def closed(self, status):
        pass


def session_of(mode, having: AnswerSource | None):
    """Return a session of `mode` in which only the source `having` has answers, and all sources."""
    sources = {source: Source(source, source is having) for source in ASKED if source is not AnswerSource.LEDGER}
    ledger = Ledger(AnswerSource.LEDGER, having is AnswerSource.LEDGER)
    prefix = {source: sources.pop(source) for source in mode.prefix if source is not AnswerSource.TAPE}
    if mode.prefix:
        prefix[AnswerSource.TAPE] = Source(AnswerSource.TAPE, has=False)
    session = Session(
        run_id=b"r" * 16,
        root=Place.root("agent", Counters(continues=mode.continues)),
        mode=mode,
        observer=MemoryObserver(),
        redaction=Redaction(),
        answerers=sources,
        prefix=prefix,
        effects=ledger,
    )
    return session, {**sources, **prefix, AnswerSource.LEDGER: ledger}


def call_of(kind: Kind, side_effect: SideEffect) -> Call:
    return Call(kind, "it", side_effect, Payload.of(b"{}", "application/json"))


def cells(mode):
    for kind in CROSSINGS:
        for side_effect in SideEffect:
            yield kind, side_effect, mode.prefix[:1] + mode.sources(kind, side_effect)


ROWS = [
    pytest.param(mode, kind, side_effect, cell, id=f"{mode.name}-{kind}-{side_effect}")
    for mode in MODES.values()
    for kind, side_effect, cell in cells(mode)
]


@pytest.mark.parametrize(("mode", "kind", "side_effect", "cell"), ROWS)
def test_each_source_of_a_cell_answers_when_those_before_it_have_nothing(mode, kind, side_effect, cell):
    """For every cell: whichever source alone has an answer gives it, after the earlier ones were asked in order."""
    for having in cell:
        if having in CALLED_THROUGH or having is AnswerSource.REFUSED:
            continue
        session, sources = session_of(mode, having)
        called = next((source for source in cell if source is AnswerSource.LIVE or source is AnswerSource.WAIT), None)
        if called is not None and cell.index(called) < cell.index(having):
            continue
        crossing = session.begin(call_of(kind, side_effect), session.root)
        assert crossing.source is having
        assert crossing.answer.source is having
        asked = [source for source in cell if sources.get(source) is not None and sources[source].asked]
        assert asked == [source for source in cell[: cell.index(having) + 1] if source not in CALLED_THROUGH]


@pytest.mark.parametrize(("mode", "kind", "side_effect", "cell"), ROWS)
def test_where_nobody_has_an_answer_a_cell_ends_as_the_table_says(mode, kind, side_effect, cell):
    """For every cell: with no answer anywhere it is called through, refused, or the run stops; nothing else."""
    session, _ = session_of(mode, None)
    last = next((s for s in cell if s in (AnswerSource.LIVE, AnswerSource.WAIT, AnswerSource.REFUSED)), None)
    call = call_of(kind, side_effect)
    if last is None:
        assert mode.off_tape is OffTape.STOP
        with pytest.raises(ReplayDeparture):
            session.begin(call, session.root)
    elif last is AnswerSource.REFUSED:
        with pytest.raises(CrossingRefused):
            session.begin(call, session.root)
        with pytest.raises(CrossingRefused):  # and nothing of this run is let through any more
            session.begin(call_of(Kind.MODEL, SideEffect.READ), session.root)
    else:
        crossing = session.begin(call, session.root)
        assert (crossing.source, crossing.answer) == (last, None)


@pytest.mark.parametrize(("mode", "kind", "side_effect", "cell"), ROWS)
def test_a_dry_run_happens_only_where_the_table_names_it(mode, kind, side_effect, cell):
    """A tool with a rehearsal is rehearsed exactly where its cell says so, when nothing before it answers."""
    session, _ = session_of(mode, None)
    call = call_of(kind, side_effect)
    if AnswerSource.DRY_RUN in cell:
        assert session.begin(call, session.root, rehearses=True).source is AnswerSource.DRY_RUN
        return
    try:
        crossing = session.begin(call, session.root, rehearses=True)
    except (CrossingRefused, ReplayDeparture):
        return
    assert crossing.source is not AnswerSource.DRY_RUN


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
@pytest.mark.parametrize("kind", BULK)
def test_reads_are_answered_in_the_order_of_their_cell(mode, kind):
    """Clock, random, uuid and env: the first source of the cell that has a read gives it; live ends the search."""
    cell = mode.sources(kind, SideEffect.NONE)
    for having in cell:
        if having is AnswerSource.LIVE:
            break
        session, _ = session_of(mode, having)
        read = session.answer_read(kind, "it")
        assert read.value == having.value
    session, _ = session_of(mode, None)
    if AnswerSource.LIVE in cell:
        assert session.answer_read(kind, "it") is None
    else:
        with pytest.raises(ReplayDeparture):
            session.answer_read(kind, "it")


@pytest.mark.parametrize("mode", [mode for mode in MODES.values() if mode.is_replay], ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", [Kind.TOOL, Kind.HTTP])
@pytest.mark.parametrize("side_effect", [SideEffect.WRITE, SideEffect.EXTERNAL])
def test_no_mode_but_record_and_resume_ever_lets_a_write_go_live(mode, kind, side_effect):
    """A write or external call has no live source in a replay, a fork, a re-run or a component test."""
    assert AnswerSource.LIVE not in mode.sources(kind, side_effect)
    assert AnswerSource.WAIT not in mode.sources(kind, side_effect)


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda mode: mode.name)
def test_every_crossing_has_a_cell(mode):
    """No kind is left out of a mode."""
    for kind in (*CROSSINGS, *BULK):
        for side_effect in SideEffect:
            assert mode.sources(kind, side_effect)


HTTP_BELOW = [
    ("record", SideEffect.WRITE, AnswerSource.LIVE),
    ("resume", SideEffect.WRITE, AnswerSource.LIVE),
    ("fork", SideEffect.READ, AnswerSource.LIVE),
    ("regression", SideEffect.READ, AnswerSource.LIVE),
    ("component", SideEffect.NONE, None),
]


@pytest.mark.parametrize(("name", "tool", "expected"), HTTP_BELOW)
def test_http_below_a_tool_goes_as_its_tool(name, tool, expected):
    """What a tool that is called through does over HTTP is the tool's own affair, unless the table says otherwise."""
    session, _ = session_of(MODES[name], None)
    crossing = session.begin(call_of(Kind.TOOL, tool), session.root)
    assert crossing.answer is None
    below = call_of(Kind.HTTP, SideEffect.WRITE)
    if expected is None:
        with pytest.raises(ReplayDeparture):
            session.begin(below, crossing.place)
    else:
        assert session.begin(below, crossing.place).source is expected


@pytest.mark.parametrize("name", ["fork", "regression"])
def test_a_tool_that_said_it_touches_nothing_may_not_write_over_http(name):
    """Below a tool declared `none` a write is refused like anybody's."""
    session, _ = session_of(MODES[name], None)
    crossing = session.begin(call_of(Kind.TOOL, SideEffect.NONE), session.root)
    with pytest.raises(CrossingRefused):
        session.begin(call_of(Kind.HTTP, SideEffect.WRITE), crossing.place)


@pytest.mark.parametrize("having", [None, AnswerSource.TAPE])
def test_a_named_cell_comes_before_that_of_its_kind(having):
    """One crossing may be answered otherwise than its kind; its namesake of another side effect may not."""
    mode = replace(MODES["regression"], named={("find", SideEffect.READ): (AnswerSource.LIVE,)})
    session, _ = session_of(mode, having)
    asked = replace(call_of(Kind.TOOL, SideEffect.READ), name="find")
    assert session.begin(asked, session.root).source is AnswerSource.LIVE
    writes = replace(call_of(Kind.TOOL, SideEffect.WRITE), name="find")
    if having is None:
        with pytest.raises(CrossingRefused):
            session.begin(writes, session.root)
    else:
        assert session.begin(writes, session.root).source is having


def test_a_re_run_sends_no_request_that_nobody_declared():
    """Plain HTTP outside any tool is answered from recordings or refused, also where it only reads."""
    for side_effect in (SideEffect.READ, SideEffect.WRITE):
        session, _ = session_of(MODES["regression"], None)
        with pytest.raises(CrossingRefused):
            session.begin(call_of(Kind.HTTP, side_effect), session.root)
