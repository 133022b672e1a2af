"""The replay side of spans that another instrumentation emitted: what they say, by its dialect, as nodes of a run.

A call that several spans tell is a step once: the others stay as scopes, marked with the span that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects import SpanFacts, facts_of
from otel_agent_replay.imports.dialects.model_calls import bare_request
from otel_agent_replay.imports.dialects.same_call import Told, as_told_again, calls_told
from otel_agent_replay.imports.dialects.span_facts import NOTHING
from otel_agent_replay.imports.trace_structure import DEEPEST, Placed, Structure
from otel_agent_replay.model import (
    AttributeValue,
    Call,
    Failure,
    Kind,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    RecordedSpan,
    Span,
)
from otel_agent_replay.otlp.facts import with_facts
from otel_agent_replay.protocols.otel_messages import NAME

_ERROR = 2  # OTLP's status code


class ForeignNodes:
    """The spans of a structure with what they say; `facts` lie at the places of its spans, `told` if there are any."""

    def __init__(self, structure: Structure) -> None:
        self._placed = structure.spans
        self._root = structure.root
        self.failed: list[tuple[int, str]] = []
        self.facts: list[SpanFacts] = [self._facts(index) for index in range(len(self._placed))]
        self._marks: dict[int, tuple[str, ...]] = {}
        self.told = any(facts is not NOTHING for facts in self.facts)
        if self.told:
            self._count_once()
        self._paths: dict[int, tuple[str, ...]] = {}
        self._seen: dict[tuple[tuple[str, ...], str, str], int] = {}
        self._steps = self._numbered() if self.told else {}
        self.payloads: dict[bytes, bytes] = {}

    def _facts(self, index: int) -> SpanFacts:
        """Return what a span says; a defect of ours in reading it is noted in `failed`, and loses no span."""
        try:
            return facts_of(self._placed[index].span)
        except Exception as error:
            self.failed.append((index, f"{type(error).__name__}: {error}"))
            return NOTHING

    def _count_once(self) -> None:
        told = [Told(item.span, facts, item.parent) for item, facts in zip(self._placed, self.facts, strict=True)]
        calls = calls_told(told)
        for index, facts in calls.facts.items():
            self.facts[index] = facts
        for index, by in calls.told_by.items():
            self.facts[index] = as_told_again(self.facts[index])
            self._marks[index] = tuple(self._placed[one].span.span_id.hex() for one in by)

    def kind(self, index: int) -> Kind | None:
        """Return the kind of a span's node; the root that is no call of its own is the run."""
        kind = self.facts[index].kind
        return Kind.RUN if index == self._root and (kind is None or not kind.is_crossing) else kind

    def _numbered(self) -> dict[int, int]:
        """Return the step of each crossing, in the order of begins."""
        kinds = ((item.begin, index, self.kind(index)) for index, item in enumerate(self._placed))
        crossing = sorted((begin, index) for begin, index, kind in kinds if kind is not None and kind.is_crossing)
        return {index: step for step, (_, index) in enumerate(crossing, start=1)}

    def recorded(self, index: int, run_id: bytes) -> RecordedSpan:
        """Return the recorded span at a place; parents are asked for before their children."""
        item, facts = self._placed[index], self.facts[index]
        above = self._paths.get(self._root if item.parent is None else item.parent, ())
        kind = self.kind(index)
        if kind is None:
            self._paths[index] = above
            return RecordedSpan(item.span)
        name = item.span.name if kind in (Kind.RUN, Kind.SCOPE) else facts.name
        above = above[:DEEPEST]
        number = self._seen.get((above, kind.value, name), 0)
        self._seen[above, kind.value, name] = number + 1
        path = self._paths[index] = (*above, f"{kind}:{name}#{number}")
        if kind is Kind.MODEL and facts.request is None:
            facts = replace(facts, request=bare_request(facts.all()), protocol=NAME)
        node = _node(item, replace(facts, kind=kind, name=name), path, run_id, self._steps.get(index))
        return RecordedSpan(with_facts(item.span, self._said(index, facts)), self._keep(node))

    def _said(self, index: int, facts: SpanFacts) -> Mapping[str, AttributeValue]:
        """The facts that go onto the span: those that it does not say itself, and how it was understood."""
        told = facts.all().items()
        found = {key: value for key, value in told if facts.kind is not Kind.SCOPE or key in _OF_SCOPES}
        if facts.dialect:
            found[semconv.IMPORT_DIALECT] = facts.dialect
        if index in self._marks:
            found[semconv.IMPORT_SAME_CALL] = self._marks[index]
        return found

    def _keep(self, node: Node) -> Node:
        asked = None if node.call is None else node.call.request
        answered = None if node.outcome is None else node.outcome.result
        for payload in (asked, answered):
            if payload is not None and payload.data is not None:
                self.payloads[payload.digest] = payload.data
        return node

    def thread_id(self) -> str:
        """Return the conversation: what the root says, else the first span that says one."""
        return self._first([self.facts[self._root].thread_id, *(facts.thread_id for facts in self.facts)])

    def subject(self) -> str:
        """Return whose data the run holds, likewise."""
        return self._first([self.facts[self._root].subject, *(facts.subject for facts in self.facts)])

    @staticmethod
    def _first(texts: Sequence[str]) -> str:
        return next((text for text in texts if text), "")


_OF_SCOPES = frozenset((semconv.AGENT_NAME, semconv.OPERATION_NAME))


def _node(placed: Placed, facts: SpanFacts, path: tuple[str, ...], run_id: bytes, step: int | None) -> Node:
    span, kind = placed.span, facts.kind or Kind.SCOPE
    call = None
    if facts.request is not None:
        request = Payload.of(facts.request, facts.media_type)
        known = {semconv.PROTOCOL: facts.protocol} if facts.protocol else {}
        call = Call(kind, facts.name, facts.side_effect, request, attributes=known)
    return Node(
        run_id,
        kind,
        facts.name,
        path,
        placed.begin,
        placed.end,
        step=step,
        side_effect=facts.side_effect,
        fidelity=facts.fidelity,
        call=call,
        outcome=_outcome(span, facts),
    )


def _outcome(span: Span, facts: SpanFacts) -> Outcome:
    status = OutcomeStatus.OK if span.end_ns else OutcomeStatus.PENDING
    failure = None
    if span.status_code == _ERROR:
        status = OutcomeStatus.ERROR
        failure = Failure(str(span.attributes.get(semconv.ERROR_TYPE, "")), span.status_message)
    result = None if facts.result is None else Payload.of(facts.result, facts.media_type)
    return Outcome(status, result, failure=failure)
