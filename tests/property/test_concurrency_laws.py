"""Law of reordered steps: what is told of many siblings at once is what holding each against each other one tells."""

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agent_replay.compare import Moved, Rule, compare
from otel_agent_replay.model import (
    Call,
    Kind,
    MediaType,
    Node,
    Payload,
    RecordedRun,
    RecordedSpan,
    Run,
    RunStatus,
    SideEffect,
    Span,
)

STRANDS = st.sampled_from(["", "1", "1.1", "1.2", "2", "2.1"])


@st.composite
def lanes(draw):
    """The same few calls in two runs, each begun and ended in an order of its own, in threads of their own."""
    count = draw(st.integers(2, 7))
    both = []
    for _ in range(2):
        events = draw(st.permutations([number for number in range(count) for _ in range(2)]))
        times = [(events.index(n) + 2, 2 * count + 1 - events[::-1].index(n)) for n in range(count)]
        both.append(list(zip(times, draw(st.lists(STRANDS, min_size=count, max_size=count)), strict=True)))
    return both


def recorded(seed, calls):
    run_id = seed.to_bytes(16, "big")
    end = 2 * len(calls) + 2
    spans = [
        RecordedSpan(
            Span(run_id, b"\0" * 8, "agent", 1, end), Node(run_id, Kind.RUN, "agent", ("run:agent#0",), 1, end)
        )
    ]
    for number, ((begin, ended), strand) in enumerate(calls):
        name = f"tool_{chr(97 + number)}"
        request = Payload.of(str(number).encode(), MediaType.JSON.value)
        call = Call(Kind.TOOL, name, SideEffect.READ, request)
        path = ("run:agent#0", f"tool:{name}#0")
        node = Node(run_id, Kind.TOOL, name, path, begin, ended, step=begin, call=call, strand=strand)
        span = Span(run_id, bytes([number + 1]) * 8, name, begin, ended, b"\0" * 8)
        spans.append(RecordedSpan(span, node))
    run = Run(run_id, run_id, b"\0" * 8, "agent", 1, end, status=RunStatus.OK)
    return RecordedRun(run, tuple(spans), lambda _: None)


def apart(one, other):
    """Whether two threads of control are known, and neither started the other."""
    return bool(one and other) and not f"{one}.".startswith(f"{other}.") and not f"{other}.".startswith(f"{one}.")


def overlap(one, other):
    return one[0] < other[1] and other[0] < one[1]


def each_with_each(call, lanes):
    """Whether a call ran beside every call that it changed places with, told in the plain way."""
    parallel = any(
        overlap(one[0], other[0]) and apart(one[1], other[1]) for lane in lanes for one in lane for other in lane
    )
    (mine_a, strand_a), (mine_b, strand_b) = (lane[call] for lane in lanes)
    for (other_a, other_strand_a), (other_b, other_strand_b) in zip(*lanes, strict=True):
        crossed = (other_a[0] - mine_a[0]) * (other_b[0] - mine_b[0]) < 0
        excused = parallel and (apart(strand_a, other_strand_a) or apart(strand_b, other_strand_b))
        if crossed and not overlap(mine_a, other_a) and not overlap(mine_b, other_b) and not excused:
            return False
    return True


@given(lanes())
@settings(deadline=None)
def test_a_reordered_step_ran_beside_all_it_changed_places_with(both):
    """A step in another order is reordered where that holds of each it changed places with, else it has moved."""
    comparison = compare(*(recorded(seed, calls) for seed, calls in enumerate(both, start=1)))
    reordered = {item.a.name for item in comparison.reordered}
    moved = {change.a.name for change in comparison.changes if isinstance(change, Moved)}
    names = {f"tool_{chr(97 + number)}": number for number in range(len(both[0]))}
    assert reordered | moved == {row.a.name for row in comparison.rows if row.rule is Rule.REORDERED}
    for name in reordered | moved:
        assert (name in reordered) == each_with_each(names[name], both)
