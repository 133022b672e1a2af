"""What differs between the two sides of one pair.

In: two recorded spans that were paired. Out: the fields that differ, with the places inside each, and what
differs without counting (volatile), by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.compare.changes import Changed, Field, FieldChange
from otel_agent_replay.compare.fingerprint import label_of
from otel_agent_replay.compare.model_messages import role_at
from otel_agent_replay.compare.substance import RunSubstance, Substance, environment_of, failure_tree
from otel_agent_replay.model import AnswerSource, Call, Kind, Node, RecordedSpan
from otel_agent_replay.payload.canonical import canonical_json
from otel_agent_replay.payload.difference import Difference, differences_within

PLACES_LISTED = 100
"""How many differing places of one payload are listed; a field with more says that it is not complete."""

_TOO_LARGE = "(too large to be compared to the end: no difference found so far)"
_FIRST_KEY = re.compile(r"[^.\[]+")
_INDEX = re.compile(r"^(?:messages|input|contents)\[(\d+)\]")
_REQUEST_KEYS = {
    "model": Field.MODEL,
    "tools": Field.TOOLS,
    "tool_choice": Field.TOOLS,
    "functions": Field.TOOLS,
    "function_call": Field.TOOLS,
    "parallel_tool_calls": Field.TOOLS,
    "system": Field.INSTRUCTIONS,
    "instructions": Field.INSTRUCTIONS,
    "messages": Field.MESSAGES,
    "input": Field.MESSAGES,
    "previous_response_id": Field.MESSAGES,
}
_ANSWER_KEYS = {
    "text": Field.TEXT,
    "refusal": Field.TEXT,
    "other choices": Field.TEXT,
    "tool_calls": Field.TOOL_CALLS,
    "finish_reason": Field.FINISH_REASON,
    "complete": Field.FINISH_REASON,
    "answering model": Field.ANSWERING_MODEL,
    "status": Field.STATUS,
    "error": Field.FAILURE,
}


class PairComparer:
    """Compares pairs of two runs and counts what is volatile over all of them."""

    def __init__(self, substance_a: RunSubstance, substance_b: RunSubstance) -> None:
        self._a = substance_a
        self._b = substance_b
        self.volatile: Counter[str] = Counter()

    def compare(self, a: RecordedSpan, b: RecordedSpan) -> list[FieldChange]:
        """Return the fields of a pair that differ, requests first."""
        one, other = a.node, b.node
        if one is None or other is None:
            return self._foreign(a, b)
        fields: list[FieldChange] = []
        if one.name != other.name and one.kind is not Kind.RUN:
            if label_of(a) != label_of(b):
                fields.append(_scalar(Field.NAME, one.name, other.name))
            elif one.kind is not Kind.MODEL:
                self.volatile["ids in names"] += 1
        if one.side_effect is not other.side_effect:
            fields.append(_scalar(Field.SIDE_EFFECT, one.side_effect.value, other.side_effect.value))
        fields.extend(self._requests(a, b, one, other))
        if (one.reads or other.reads) and _ran(one) and _ran(other):
            fields.extend(_differences(Field.ENVIRONMENT, environment_of(one), environment_of(other)))
            self._count_reads(one, other)
        fields.extend(self._answers(a, b, one, other))
        return fields

    def _foreign(self, a: RecordedSpan, b: RecordedSpan) -> list[FieldChange]:
        fields = []
        if label_of(a) != label_of(b):
            fields.append(_scalar(Field.NAME, a.span.name, b.span.name))
        elif a.span.name != b.span.name:
            self.volatile["ids in names"] += 1
        if a.span.status_code != b.span.status_code:
            fields.append(_scalar(Field.STATUS, a.span.status_code, b.span.status_code))
        errors = a.span.attributes.get(semconv.ERROR_TYPE), b.span.attributes.get(semconv.ERROR_TYPE)
        if errors[0] != errors[1]:
            fields.append(_scalar(Field.FAILURE, *errors))
        return fields

    def _requests(self, a: RecordedSpan, b: RecordedSpan, one: Node, other: Node) -> list[FieldChange]:
        if one.call is not None and other.call is not None and _same_call(one.call, other.call):
            return []
        before, after = self._a.request(a), self._b.request(b)
        if before is None or after is None:
            return [] if before is after else [_scalar(Field.REQUEST, before and before.tree, after and after.tree)]
        if one.call is None or one.call.head is None:
            if one.kind is Kind.MODEL:  # of a trace that keeps messages, not the HTTP exchange
                trees = before.tree, after.tree
                return self._values(before, after, lambda path: _request_field(path, trees))
            return self._values(before, after, lambda _: Field.REQUEST)
        if one.kind is not Kind.MODEL:
            return self._values(
                before, after, lambda path: Field.ENDPOINT if _key(path) != "body" else Field.REQUEST, "body"
            )
        bodies = [side.tree.get("body") if isinstance(side.tree, dict) else None for side in (before, after)]

        def field_of(path: str) -> Field:
            inside = path.removeprefix("body").removeprefix(".")
            return Field.ENDPOINT if inside == path else _request_field(inside, bodies)

        return self._values(before, after, field_of, "body")

    def _answers(self, a: RecordedSpan, b: RecordedSpan, one: Node, other: Node) -> list[FieldChange]:
        fields: list[FieldChange] = []
        before_outcome, after_outcome = one.outcome, other.outcome
        if before_outcome is None or after_outcome is None:
            if before_outcome is not after_outcome:
                states = [outcome and outcome.status.value for outcome in (before_outcome, after_outcome)]
                fields.append(_scalar(Field.STATUS, states[0], states[1]))
            return fields
        if before_outcome.status is not after_outcome.status:
            fields.append(_scalar(Field.STATUS, before_outcome.status.value, after_outcome.status.value))
        if before_outcome.failure != after_outcome.failure:
            trees = failure_tree(before_outcome.failure), failure_tree(after_outcome.failure)
            fields.extend(_differences(Field.FAILURE, *trees))
        raw = [None if outcome.result is None else outcome.result.digest for outcome in (before_outcome, after_outcome)]
        statuses = [outcome.head and outcome.head.status for outcome in (before_outcome, after_outcome)]
        if raw[0] == raw[1] and statuses[0] == statuses[1]:
            return fields
        before, after = self._a.result(a), self._b.result(b)
        if before is None or after is None:
            if before is not after:
                fields.append(_scalar(Field.RESULT, before and before.tree, after and after.tree))
            return fields
        if before_outcome.head is None:
            field_of = _answer_field if one.kind is Kind.MODEL else lambda _: Field.RESULT
            return [*fields, *self._values(before, after, field_of)]
        return [*fields, *self._values(before, after, _answer_field, "body")]

    def _values(
        self, before: Substance, after: Substance, field_of: Callable[[str], Field], strip: str = ""
    ) -> list[FieldChange]:
        """Compare two substances; `strip` is a first key that is left out of the paths shown."""
        if not (before.known and after.known):
            fields = _grouped(before.tree, after.tree, field_of, strip) if before.known == after.known else []
            if before.digest != after.digest:
                different = [Difference("", _sha(before), _sha(after))]
                fields.append(FieldChange(field_of(strip or ""), different, by_digest=True))
            return fields
        self._count_volatile(before, after)
        return _grouped(before.tree, after.tree, field_of, strip)

    def _count_volatile(self, before: Substance, after: Substance) -> None:
        named = False
        for name in before.volatile.keys() | after.volatile.keys():
            if before.volatile.get(name) != after.volatile.get(name):
                self.volatile[name] += 1
                named = True
        if not named and before.digest != after.digest and before.tree == after.tree:
            self.volatile["spelling or chunking of payloads"] += 1

    def _count_reads(self, one: Node, other: Node) -> None:
        for kind in (Kind.CLOCK, Kind.RANDOM, Kind.UUID):
            before = [(read.name, read.value) for read in one.reads if read.kind is kind]
            after = [(read.name, read.value) for read in other.reads if read.kind is kind]
            differing = sum(1 for left, right in zip(before, after, strict=False) if left != right) + abs(
                len(before) - len(after)
            )
            if differing:
                self.volatile[f"{kind} reads"] += differing


def stopped_early(change: Changed) -> bool:
    """Whether a payload of the pair was not compared to its end, for the work that it would have taken."""
    cut = [item for item in change.fields if not item.complete]
    return bool(cut) and sum(len(item.differences) for item in cut) < PLACES_LISTED


def _sha(side: Substance) -> str:
    return f"sha256 {side.digest.hex()[:16]}"


def _same_call(one: Call, other: Call) -> bool:
    """Whether two calls have one digest; most often told without making it."""
    return one.request.digest == other.request.digest and (one.head == other.head or one.digest == other.digest)


def _ran(node: Node) -> bool:
    """Whether the code of the node ran: what was answered without it read nothing."""
    return node.source is AnswerSource.LIVE or not node.kind.is_crossing


def _scalar(field: Field, before: Any, after: Any) -> FieldChange:
    return FieldChange(field, [Difference("", before, after)])


def _differences(field: Field, before: Any, after: Any) -> list[FieldChange]:
    return [] if before == after else _grouped(before, after, lambda _: field, "")


def _grouped(before: Any, after: Any, field_of: Callable[[str], Field], strip: str) -> list[FieldChange]:
    found, to_the_end = differences_within(before, after, limit=PLACES_LISTED + 1)
    if not to_the_end and not found:
        if canonical_json(before) == canonical_json(after):  # which one pass over each tells
            return []
        found = [Difference("", _TOO_LARGE, _TOO_LARGE)]
    groups: dict[Field, list[Difference]] = {}
    for place in found[:PLACES_LISTED]:
        path = place.path
        if strip and _key(path) == strip:
            path = path[len(strip) :].removeprefix(".")
        groups.setdefault(field_of(place.path), []).append(Difference(path, place.before, place.after))
    complete = to_the_end and len(found) <= PLACES_LISTED
    order = list(Field)
    return [FieldChange(field, groups[field], complete) for field in sorted(groups, key=order.index)]


def _key(path: str) -> str:
    match = _FIRST_KEY.match(path)
    return match.group() if match else ""


def _request_field(path: str, bodies: Sequence[Any]) -> Field:
    key = _key(path)
    index = _INDEX.match(path)
    if index and any(role_at(body, key, int(index.group(1))) in {"system", "developer"} for body in bodies):
        return Field.INSTRUCTIONS
    return _REQUEST_KEYS.get(key, Field.PARAMETERS)


def _answer_field(path: str) -> Field:
    return _ANSWER_KEYS.get(_key(path), Field.RESULT)
