"""The recorded run with one thing made wrong: a case that does not notice it checks too little. Pure.

Each mutant differs from its original in one way that a person would call another run: a check left out, an argument
changed, a write made twice, two calls swapped, another answer. Ids, times and tokens stay as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from otel_agent_replay.model import Kind, Node, Payload, RecordedRun, RecordedSpan, SideEffect, Word

_CALLS = frozenset((Kind.TOOL, Kind.RETRIEVAL, Kind.DECISION, Kind.APPROVAL, Kind.HTTP))
_EFFECTS = frozenset((SideEffect.WRITE, SideEffect.EXTERNAL))
_MOST_LEAVES = 4  # of one call's arguments
_OTHER = " (altered)"
_APART = 1_000_000  # occurrences of repeated calls: no recorded one has such a number


class Mutation(Word):
    """What was made wrong."""

    DROPPED = "call dropped"
    ARGUMENT = "argument changed"
    REPEATED = "write repeated"
    SWAPPED = "order swapped"
    ANSWER = "answer altered"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A run that is wrong in one way; `what` says in which, `step` where (None: at its end)."""

    mutation: Mutation
    what: str
    step: int | None
    recorded: RecordedRun


def mutants_of(recorded: RecordedRun, *, most: int = 200) -> list[Mutant]:
    """Return the mutants of a run, in the order of its steps; of more than `most` an even selection of every kind."""
    whole = _Whole(recorded)
    found = [*whole.dropped(), *whole.arguments(), *whole.repeated(), *whole.swapped(), *whole.answers()]
    if len(found) <= most:
        return found
    by_kind = [[one for one in found if one.mutation is mutation] for mutation in Mutation]
    share = [max(1, len(members) * most // len(found)) for members in by_kind]
    return [one for members, count in zip(by_kind, share, strict=True) for one in _evenly(members, count)]


class _Whole:
    """A run, and its calls that one may do wrong: those that are no part of another call."""

    def __init__(self, recorded: RecordedRun) -> None:
        self._recorded = recorded
        nodes = [item for item in recorded.spans if item.node is not None and item.node.kind in _CALLS]
        paths = {item.node.path for item in nodes if item.node is not None}
        self._calls = [
            (item, item.node)
            for item in nodes
            if item.node is not None
            and not any(item.node.path[:size] in paths for size in range(1, len(item.node.path)))
        ]

    def dropped(self) -> Iterator[Mutant]:
        for _, node in self._calls:
            kept = [
                item
                for item in self._recorded.spans
                if item.node is None or item.node.path[: len(node.path)] != node.path
            ]
            yield Mutant(Mutation.DROPPED, f"without {_label(node)}", node.step, self._with(kept))

    def arguments(self) -> Iterator[Mutant]:
        for item, node in self._calls:
            call = node.call
            tree = None if call is None else self._json(call.request)
            if call is None or tree is None:
                continue
            for path, value in list(_leaves(tree, ()))[:_MOST_LEAVES]:
                other = _other(value)
                request, bodies = _encoded(_with_leaf(tree, path, other), call.request)
                changed = replace(item, node=replace(node, call=replace(call, request=request)))
                what = f"{_label(node)}: {'.'.join(map(str, path))} {value!r} -> {other!r}"
                yield Mutant(Mutation.ARGUMENT, what, node.step, self._with(self._instead(item, changed), bodies))

    def repeated(self) -> Iterator[Mutant]:
        last = max((node.step or 0 for node in self._recorded.nodes), default=0)
        end = max((max(node.sequence, node.end_sequence) for node in self._recorded.nodes), default=0)
        for item, node in self._calls:
            if node.side_effect not in _EFFECTS or node.call is None:
                continue
            head, _, occurrence = node.path[-1].rpartition("#")
            again = replace(
                node,
                path=(*node.path[:-1], f"{head}#{int(occurrence) + _APART}"),
                sequence=end + 1,
                end_sequence=end + 2,
                step=last + 1,
                call=replace(node.call, idempotency_key=""),
            )
            span_id = hashlib.sha256(item.span.span_id + b"again").digest()[:8]
            span = replace(item.span, span_id=span_id)
            made = [*self._recorded.spans, RecordedSpan(span, again)]
            yield Mutant(Mutation.REPEATED, f"{_label(node)} again, without a key", node.step, self._with(made))

    def swapped(self) -> Iterator[Mutant]:
        calls = sorted(self._calls, key=lambda call: call[1].sequence)
        for (one, before), (other, after) in pairwise(calls):
            apart = before.end_sequence and before.end_sequence <= after.sequence
            if not apart or (before.kind, before.name) == (after.kind, after.name):
                continue
            first = replace(one, node=_placed(before, after))
            second = replace(other, node=_placed(after, before))
            spans = [first if item is one else second if item is other else item for item in self._recorded.spans]
            what = f"{_label(after)} before {_label(before)}"
            yield Mutant(Mutation.SWAPPED, what, before.step, self._with(spans))

    def answers(self) -> Iterator[Mutant]:
        root = self._recorded.root
        outcome = None if root is None or root.node is None else root.node.outcome
        if root is None or root.node is None or outcome is None or outcome.result is None:
            return
        tree = self._json(outcome.result)
        for path, value in list(_leaves(tree, ()))[:_MOST_LEAVES]:
            other = "Something else." if isinstance(value, str) else _other(value)
            result, bodies = _encoded(_with_leaf(tree, path, other), outcome.result)
            changed = replace(root, node=replace(root.node, outcome=replace(outcome, result=result)))
            place = ".".join(map(str, path))
            what = f"the run's result{' at ' + place if place else ''} is {other!r}"
            yield Mutant(Mutation.ANSWER, what, None, self._with(self._instead(root, changed), bodies))

    def _instead(self, item: RecordedSpan, changed: RecordedSpan) -> list[RecordedSpan]:
        return [changed if one is item else one for one in self._recorded.spans]

    def _with(self, spans: Sequence[RecordedSpan], bodies: Mapping[bytes, bytes] | None = None) -> RecordedRun:
        known, kept = bodies or {}, self._recorded.payload
        return RecordedRun(
            self._recorded.run,
            tuple(spans),
            lambda digest: known[digest] if digest in known else kept(digest),
            self._recorded.losses,
            self._recorded.attempts,
            self._recorded.superseded,
        )

    def _json(self, payload: Payload) -> Any:
        data = self._recorded.bytes_of(payload)
        try:
            return None if not data else json.loads(data)
        except ValueError:
            return None


def _label(node: Node) -> str:
    return f"{node.kind.value} {node.name}"


def _placed(node: Node, like: Node) -> Node:
    return replace(node, sequence=like.sequence, end_sequence=like.end_sequence, step=like.step)


def _leaves(tree: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the plain values of a tree; what a typed value says of its type is none."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if not key.startswith("$") and not ("$type" in tree and key in ("class", "base", "name", "dtype")):
                yield from _leaves(value, (*path, key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _leaves(value, (*path, number))
    elif tree is not None:
        yield path, tree


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, (int, float)) else f"{value}{_OTHER}"


def _with_leaf(tree: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(tree, dict):
        return {key: _with_leaf(item, rest, value) if key == head else item for key, item in tree.items()}
    return [_with_leaf(item, rest, value) if number == head else item for number, item in enumerate(tree)]


def _encoded(tree: Any, like: Payload) -> tuple[Payload, dict[bytes, bytes]]:
    data = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    payload = Payload.of(data, like.media_type)
    return payload.without_data(), {payload.digest: data}


def _evenly(members: Sequence[Mutant], count: int) -> list[Mutant]:
    if len(members) <= count:
        return list(members)
    return [members[number * len(members) // count] for number in range(count)]
