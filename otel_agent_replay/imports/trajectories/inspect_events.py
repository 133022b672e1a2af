"""The events of an Inspect sample -> turns: model and tool events in the spans (older logs: steps) that hold them.

Spans in which nothing crossed are left out. Events of other kinds (sandbox, state, score, log) are counted, not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import parsed
from otel_agent_replay.imports.trajectories.inspect_messages import model_turn
from otel_agent_replay.imports.trajectories.places import list_in, nanoseconds
from otel_agent_replay.imports.trajectories.trajectory import ScopeTurn, ToolTurn, Turn

_MEANT_FOR_ORDER = ("span_begin", "span_end", "step", "sample_init")
_DEEPEST = 64


@dataclass
class _Span:
    name: str
    begun_ns: int = 0
    ended_ns: int = 0
    parts: list[Turn | _Span] = field(default_factory=list)


class EventReader:
    """Reads the events of one sample. `pool` are messages that events name by number; `left` counts what was left."""

    def __init__(self, pool: Sequence[Any], place: str) -> None:
        self._pool, self._place = pool, place
        self.left: Counter[str] = Counter()
        self.first_ns = 0
        self.last_ns = 0

    def turns(self, events: Sequence[Any], depth: int = 0) -> list[Turn]:
        """Return the turns of a list of events. Raises DamagedRecording for one that is no event."""
        if depth > _DEEPEST:
            raise DamagedRecording(f"{self._place}: events lie more than {_DEEPEST} deep in each other")
        root = _Span("")
        spans: dict[str, _Span] = {}
        stack = [root]
        for number, event in enumerate(events):
            place = f"{self._place} events[{number}]"
            if not isinstance(event, Mapping) or "event" not in event:
                raise DamagedRecording(f"{place} is no event: {str(event)[:60]!r}")
            moment = self._moment(event, place)
            kind = event["event"]
            if kind == "span_begin":
                span = _Span(str(event.get("name") or event.get("type") or "span"), moment)
                spans.get(str(event.get("parent_id")), root).parts.append(span)
                spans[str(event.get("id"))] = span
            elif kind == "span_end" and str(event.get("id")) in spans:
                spans[str(event.get("id"))].ended_ns = moment
            elif kind == "step":
                self._step(event, stack, moment)
            else:
                within = spans.get(str(event.get("span_id")), stack[-1])
                within.parts += self._crossed(event, place, depth)
        return _pruned(root)

    def _step(self, event: Mapping[str, Any], stack: list[_Span], moment: int) -> None:
        if event.get("action") == "begin":
            span = _Span(str(event.get("name") or event.get("type") or "step"), moment)
            stack[-1].parts.append(span)
            stack.append(span)
        elif len(stack) > 1:
            stack.pop().ended_ns = moment

    def _crossed(self, event: Mapping[str, Any], place: str, depth: int) -> list[Turn]:
        kind = event["event"]
        if kind == "model":
            return [model_turn(event, self._input(event, place), place)]
        if kind in ("tool", "subtask"):
            return self._tool(event, place, depth) if kind == "tool" else self._subtask(event, place, depth)
        if kind not in _MEANT_FOR_ORDER:
            self.left[str(kind)] += 1
        return []

    def _tool(self, event: Mapping[str, Any], place: str, depth: int) -> list[Turn]:
        error = event.get("error")
        turn = ToolTurn(
            str(event.get("function") or "tool"),
            event.get("arguments"),
            parsed(event.get("result")),
            str(event.get("id") or ""),
            error=str(error.get("message") or error.get("type")) if isinstance(error, Mapping) else str(error or ""),
            begun_ns=nanoseconds(event.get("timestamp"), place),
            ended_ns=nanoseconds(event.get("completed"), place),
        )
        inner = self.turns(list_in(event, "events", place), depth + 1)
        return [ScopeTurn(f"tool {turn.name}", [turn, *inner], turn.begun_ns, turn.ended_ns)] if inner else [turn]

    def _subtask(self, event: Mapping[str, Any], place: str, depth: int) -> list[Turn]:
        inner = self.turns(list_in(event, "events", place), depth + 1)
        return [ScopeTurn(str(event.get("name") or "subtask"), inner)] if inner else []

    def _input(self, event: Mapping[str, Any], place: str) -> list[Any]:
        given, refs = event.get("input"), event.get("input_refs")
        if isinstance(given, list) and given:
            return given
        found: list[Any] = []
        for ref in refs if isinstance(refs, list) else ():
            if not (isinstance(ref, list) and len(ref) == 2 and all(isinstance(end, int) for end in ref)):
                raise DamagedRecording(f"{place}: input_refs holds {str(ref)[:40]!r}, which is no range")
            found += self._pool[ref[0] : ref[1]]
        return found

    def _moment(self, event: Mapping[str, Any], place: str) -> int:
        moment = nanoseconds(event.get("timestamp"), place)
        ended = nanoseconds(event.get("completed"), place)
        if moment:
            self.first_ns = min(self.first_ns or moment, moment)
            self.last_ns = max(self.last_ns, moment, ended)
        return moment


def _pruned(span: _Span) -> list[Turn]:
    turns: list[Turn] = []
    for part in span.parts:
        if isinstance(part, _Span):
            inner = _pruned(part)
            if inner:
                turns.append(ScopeTurn(part.name, inner, part.begun_ns, part.ended_ns))
        else:
            turns.append(part)
    return turns
