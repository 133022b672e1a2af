"""One call that several spans tell: which of them counts, and what it learns from the others. Pure.

It happens where an SDK has spans of its own beside an instrumentation's, where two instrumentations are on, where a
framework's span stands around its provider's, and where a stream's end is written as a span of its own. What two spans
have in common decides, never their names: one lies within the other with nothing but plain code between, they tell the
same response id at the same time, or two scopes tell the same answer of the same moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.span_facts import SpanFacts
from otel_agent_replay.model import Fidelity, Kind, SideEffect, Span

_RANKS: Final = {Fidelity.WIRE: 3, Fidelity.EXCHANGE: 2, Fidelity.MESSAGES: 1, Fidelity.TEXT: 0}
_BETWEEN: Final = (None, Kind.SCOPE, Kind.RUN)
_ALIKE: Final = 0.8  # of the time of both together: from here on two spans are of the same moment
_USAGE: Final = (semconv.USAGE_INPUT_TOKENS, semconv.USAGE_OUTPUT_TOKENS)


class Told(NamedTuple):
    """A span with what it says, and the place of its parent among its like; None: it has none."""

    span: Span
    facts: SpanFacts
    parent: int | None


@dataclass(slots=True)
class Calls:
    """`facts` of the spans that count, changed by what others tell of the same call.

    `told_by` leads from a span that does not count to those that do.
    """

    facts: dict[int, SpanFacts] = field(default_factory=dict)
    told_by: dict[int, tuple[int, ...]] = field(default_factory=dict)


def calls_told(items: Sequence[Told]) -> Calls:
    """Return which spans of a trace tell a call that another one tells too. Linear, but for calls of one parent."""
    found = _Groups(items)
    found.join_streams()
    found.join_nested(Kind.MODEL)
    found.join_nested(Kind.TOOL)
    found.join_response_ids()
    found.join_siblings()
    return found.result()


class _Groups:
    """Spans that tell one call, joined two by two."""

    def __init__(self, items: Sequence[Told]) -> None:
        self._items = items
        self._leader = list(range(len(items)))
        self._around: dict[int, list[int]] = {}
        self._forced: set[int] = set()
        self._models = [index for index, item in enumerate(items) if item.facts.kind is Kind.MODEL]

    def _find(self, index: int) -> int:
        while self._leader[index] != index:
            self._leader[index] = self._leader[self._leader[index]]
            index = self._leader[index]
        return index

    def _join(self, one: int, other: int) -> None:
        one, other = sorted((self._find(one), self._find(other)))
        self._leader[other] = one

    def _facts(self, index: int) -> Mapping[str, object]:
        return self._items[index].facts.all()

    # --- a stream's end is a span of its own (Logfire) ---

    def join_streams(self) -> None:
        """Join what tells a stream's end with the span that tells its begin: the same request, the latest before it."""
        open_calls: dict[bytes, list[int]] = defaultdict(list)
        for index in sorted(self._models, key=lambda index: self._items[index].span.start_ns):
            item = self._items[index]
            if item.facts.request is None or item.facts.dialect != "logfire":
                continue
            if item.span.attributes.get("logfire.span_type") == "log":
                waiting = open_calls[item.facts.request]
                if waiting:
                    begun = waiting.pop()
                    self._forced.add(begun)
                    self._join(begun, index)
            elif item.facts.result is None:
                open_calls[item.facts.request].append(index)

    # --- one within the other ---

    def join_nested(self, kind: Kind) -> None:
        """Join a call with the one call within it. Around several, or marked so, a span is no call itself."""
        inner: dict[int, list[int]] = defaultdict(list)
        nearest: dict[int, int | None] = {}
        for index, item in enumerate(self._items):
            if item.facts.kind is kind:
                outer = self._outer(index, kind, nearest)
                if outer is not None and self._fits(outer, index, kind):
                    inner[outer].append(index)
        for outer, members in inner.items():
            apart = [index for index in members if self._find(index) != self._find(outer)]
            if not apart:
                continue
            if len(apart) == 1 and not self._items[outer].facts.wraps:
                self._join(outer, apart[0])
            elif kind is Kind.MODEL:
                self._around[outer] = apart

    def _outer(self, index: int, kind: Kind, nearest: dict[int, int | None]) -> int | None:
        """The nearest span of that kind above, with nothing but plain code and scopes between."""
        way: list[int] = []
        at = self._items[index].parent
        found: int | None = None
        while at is not None:
            if at in nearest:
                found = nearest[at]
                break
            above = self._items[at].facts.kind
            if above is kind:
                found = at
                break
            if above not in _BETWEEN:
                break
            way.append(at)
            at = self._items[at].parent
        nearest.update(dict.fromkeys(way, found))
        return found

    def _fits(self, outer: int, inner: int, kind: Kind) -> bool:
        one, other = self._items[outer].facts, self._items[inner].facts
        if kind is Kind.TOOL:
            same = one.request is None or other.request is None or one.request == other.request
            return one.name == other.name and same
        return _same_model(self._facts(outer), self._facts(inner))

    # --- side by side ---

    def join_response_ids(self) -> None:
        """Join calls of one response id at one time: of two scopes, or where one lies in the other's time wholly."""
        by_id: dict[object, list[int]] = defaultdict(list)
        for index in self._models:
            response_id = self._facts(index).get(semconv.RESPONSE_ID)
            if response_id:
                by_id[response_id].append(index)
        for members in by_id.values():
            first = members[0]
            for index in members[1:]:
                one, other = self._items[first].span, self._items[index].span
                if one.scope.name != other.scope.name and _overlap(one, other) > 0:
                    self._join(first, index)

    def join_siblings(self) -> None:
        """Join calls of two scopes under one parent that tell the same answer, or the same usage, of one moment."""
        by_parent: dict[int | None, list[int]] = defaultdict(list)
        for index in self._models:
            by_parent[self._items[index].parent].append(index)
        for members in by_parent.values():
            if len({self._items[index].span.scope.name for index in members}) < 2:
                continue
            members.sort(key=lambda index: self._items[index].span.start_ns)
            for place, one in enumerate(members):
                for other in members[place + 1 :]:
                    if self._items[other].span.start_ns > self._items[one].span.end_ns:
                        break
                    if self._find(one) != self._find(other) and self._told_alike(one, other):
                        self._join(one, other)

    def _told_alike(self, one: int, other: int) -> bool:
        first, second = self._items[one], self._items[other]
        if first.span.scope.name == second.span.scope.name or _overlap(first.span, second.span) < _ALIKE:
            return False
        facts, others = self._facts(one), self._facts(other)
        ids = facts.get(semconv.RESPONSE_ID), others.get(semconv.RESPONSE_ID)
        if all(ids) or not _same_model(facts, others):
            return False  # equal ids were joined before, so these differ
        usage = [(facts.get(key), others.get(key)) for key in _USAGE]
        if all(mine is not None and mine == theirs for mine, theirs in usage):
            return True
        return first.facts.result is not None and first.facts.result == second.facts.result

    # --- what comes of it ---

    def result(self) -> Calls:
        """Choose of each group the span that counts, and let it learn from the others."""
        calls = Calls()
        members: dict[int, list[int]] = defaultdict(list)
        for index, leader in enumerate(map(self._find, range(len(self._items)))):
            if leader != index or self._leader[index] != index:
                members[leader].append(index)
        for leader, others in members.items():
            group = [leader, *others]
            counts = max(group, key=lambda index: (index in self._forced, *_rank(self._items[index]), -index))
            facts = self._items[counts].facts
            for index in sorted(group, key=lambda index: _rank(self._items[index]), reverse=True):
                if index != counts:
                    facts = _learnt(facts, self._items[index].facts)
                    calls.told_by[index] = (counts,)
            calls.facts[counts] = facts
        for outer, inside in self._around.items():
            told = {calls.told_by.get(index, (index,))[0] for index in inside} - {outer}
            counted = calls.told_by.get(outer, (outer,))[0]
            for index in (outer, counted, *(one for one, by in calls.told_by.items() if by == (counted,))):
                if told and index not in told:
                    calls.told_by[index] = tuple(sorted(told))
                    calls.facts.pop(index, None)
        return calls


def as_told_again(facts: SpanFacts) -> SpanFacts:
    """Return what is left of a span that tells a call again: a scope, with what went in and came out of it."""
    return replace(facts, kind=Kind.SCOPE, side_effect=SideEffect.NONE, asked={}, answered={}, protocol="", wraps=False)


def _rank(item: Told) -> tuple[int, bool, bool, bool]:
    facts = item.facts
    told = facts.all()
    return _RANKS[facts.fidelity], facts.result is not None, facts.request is not None, _USAGE[1] in told


def _learnt(facts: SpanFacts, other: SpanFacts) -> SpanFacts:
    """Return the facts with what only `other` tells."""
    asked, answered = {**other.asked, **facts.asked}, {**other.answered, **facts.answered}
    fits = facts.request is None or facts.protocol == other.protocol
    if facts.result is None and other.result is not None and fits:
        request = other.request if facts.request is None else facts.request
        facts = replace(facts, request=request, result=other.result, protocol=other.protocol, fidelity=other.fidelity)
        asked[semconv.PROTOCOL] = other.protocol
    elif facts.request is None and other.request is not None and facts.protocol == other.protocol:
        facts = replace(facts, request=other.request)
    return replace(
        facts,
        asked=asked,
        answered=answered,
        thread_id=facts.thread_id or other.thread_id,
        subject=facts.subject or other.subject,
    )


def _same_model(facts: Mapping[str, object], others: Mapping[str, object]) -> bool:
    """Whether two calls may be of one model: a dated or prefixed name is the name, and no name may be any."""
    keys = (semconv.REQUEST_MODEL, semconv.RESPONSE_MODEL)
    names = {_bare(str(facts[key])) for key in keys if facts.get(key)}
    others_names = {_bare(str(others[key])) for key in keys if others.get(key)}
    if facts.get(semconv.OPERATION_NAME) == "embeddings" != others.get(semconv.OPERATION_NAME):
        return False
    return (
        not names
        or not others_names
        or any(one.startswith(other) or other.startswith(one) for one in names for other in others_names)
    )


def _bare(model: str) -> str:
    return model.lower().rpartition("/")[2]


def _overlap(one: Span, other: Span) -> float:
    """How much of the time that two spans take together both take."""
    begin, end = min(one.start_ns, other.start_ns), max(one.end_ns, other.end_ns)
    both = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    return both / (end - begin) if end > begin and both >= 0 else float(end == begin)
