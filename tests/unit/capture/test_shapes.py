"""What like calls share in their records."""

from __future__ import annotations

from types import SimpleNamespace

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.capture.node_records import NodeRecords
from otel_agent_replay.model import AnswerSource, Call, Kind, MediaType, Payload, SideEffect
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire


def test_calls_of_one_name_that_differ_share_nothing():
    """Of calls of one name each begin says its own kind, side effect, attributes and answer source, in any order."""
    records = NodeRecords(b"r" * 16, marks={})
    request = Payload.of(b"{}", MediaType.VALUE.value)
    one, two = {"a": "1"}, {"a": "2"}
    told = [
        (Kind.TOOL, SideEffect.READ, one, AnswerSource.LIVE),
        (Kind.TOOL, SideEffect.WRITE, one, AnswerSource.LIVE),
        (Kind.TOOL, SideEffect.READ, two, AnswerSource.LIVE),
        (Kind.DECISION, SideEffect.READ, one, AnswerSource.LIVE),
        (Kind.TOOL, SideEffect.READ, one, AnswerSource.POOL),
    ]
    for kind, effect, attributes, source in [*told, *reversed(told), *told]:
        call = Call(kind, "lookup", effect, request, None, attributes)
        place = Place.root("desk").child(kind, "lookup")
        shape = records.shape(place, call, source)
        assert shape is records.shape(place, call, source)
        crossing = SimpleNamespace(place=place, call=call, answer=None)
        data, _ = records.begun(crossing, shape, (b"s" * 8, b"p" * 8, b"p" * 8), 1, "", True)
        begun = wire.Record.FromString(data).node_begun
        assert (begun.kind, begun.side_effect, begun.source) == (kind.value, effect.value, source.value)
        assert convert.attributes_from_wire(begun.attributes) == attributes
