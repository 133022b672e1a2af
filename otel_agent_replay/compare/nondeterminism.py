"""What differs between two recordings of the same command: every request that did not come out equal, by JSON path.

Pure. Owns how a differing value is called by its looks, and whether it follows from an answer that differed before it.
Whether a replay can give a value back is not decided here: a replay decides that.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.compare.comparison import Comparison
from otel_agent_replay.compare.tree import build_tree
from otel_agent_replay.model import Kind, Node, RecordedRun, Word
from otel_agent_replay.payload.difference import MISSING, Difference, differences

_MOST_PLACES = 50  # listed of one request
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\b1[0-9]{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b")
_IDENTIFIER = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-fA-F]{16,}")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,16}")
_WORD = re.compile(r"[^\s,;\"'()\[\]{}]+")
_TELLING = 4  # characters from which on a piece of text is not found in an answer by chance


class Looks(Word):
    """What two differing values look like."""

    MOMENT = "clock"
    IDENTIFIER = "identifier"
    ADDRESS = "memory address"
    ORDER = "order"  # the same things in another order: a set, a directory, threads
    NUMBER = "number"
    OTHER = "text"


@dataclass(frozen=True, slots=True)
class Varying:
    """One place of a request that differs between two recordings of the same command.

    `path` is the JSON path in the request ("" for the whole of it, or for what is no JSON), as a volatile rule has it.
    `follows` tells that both values stand in an answer that the run had had before: the answer differed, not the code.
    """

    step: int | None
    kind: Kind
    name: str
    path: str
    before: Any
    after: Any
    looks: Looks
    follows: bool


def varying_requests(a: RecordedRun, b: RecordedRun, comparison: Comparison) -> list[Varying]:
    """Return where the requests of paired steps differ, in the order of A. `comparison` is that of the two."""
    tree_a, tree_b = build_tree(a), build_tree(b)
    answers_a, answers_b = _Answers(a), _Answers(b)
    found = []
    for pair in sorted(comparison.alignment.pairs, key=lambda one: one.a):
        one, other = tree_a.nodes[pair.a].node, tree_b.nodes[pair.b].node
        if one is None or other is None or one.kind is Kind.RUN or not one.kind.is_crossing:
            continue
        for difference in _request_differences(a, one, b, other):
            pieces = _pieces(difference)
            follows = all(answers_a.hold(old, one) and answers_b.hold(new, other) for old, new in pieces)
            found.append(
                Varying(
                    one.step,
                    one.kind,
                    one.name,
                    difference.path,
                    difference.before,
                    difference.after,
                    looks_of(difference.before, difference.after),
                    bool(pieces) and follows,
                )
            )
    return found


def looks_of(before: Any, after: Any) -> Looks:
    """Return what two differing values look like, by the parts in which they differ.

    >>> looks_of("it is 10:31:02", "it is 10:31:05").value
    'clock'
    """
    old, new = _text(before), _text(after)
    if Counter(_WORD.findall(old)) == Counter(_WORD.findall(new)):
        return Looks.ORDER
    pieces = " ".join(piece for pair in _changed_words(old, new) for piece in pair)
    for looks, pattern in ((Looks.ADDRESS, _ADDRESS), (Looks.MOMENT, _MOMENT), (Looks.IDENTIFIER, _IDENTIFIER)):
        if pattern.search(pieces):
            return looks
    numeric = all(_is_number(piece) for pair in _changed_words(old, new) for piece in pair)
    return Looks.NUMBER if numeric else Looks.OTHER


def _request_differences(a: RecordedRun, one: Node, b: RecordedRun, other: Node) -> Iterator[Difference]:
    if one.call is None or other.call is None or one.call.digest == other.call.digest:
        return
    if one.call.head is not None and other.call.head is not None and one.call.head.url != other.call.head.url:
        yield Difference("", one.call.head.url, other.call.head.url)
    before, after = a.bytes_of(one.call.request), b.bytes_of(other.call.request)
    if before is None or after is None or before == after:
        return
    try:
        places = differences(json.loads(before), json.loads(after), limit=_MOST_PLACES)
    except (ValueError, RecursionError):
        places = [Difference("", before.decode("utf-8", "replace"), after.decode("utf-8", "replace"))]
    yield from places


class _Answers:
    """What a run was answered, as text, in the order in which the answers were complete."""

    def __init__(self, run: RecordedRun) -> None:
        ended = sorted((node for node in run.nodes if node.end_sequence and node.kind.is_crossing), key=_end)
        self._answers = [(node.end_sequence, _answer(run, node)) for node in ended]

    def hold(self, piece: str, node: Node) -> bool:
        """Whether a piece of text stands in an answer that the run had when `node` began."""
        if len(piece) < _TELLING:
            return False
        escaped = json.dumps(piece)[1:-1]
        return any(piece in text or escaped in text for end, text in self._answers if end < node.sequence)


def _end(node: Node) -> int:
    return node.end_sequence


def _answer(run: RecordedRun, node: Node) -> str:
    outcome = node.outcome
    data = None if outcome is None or outcome.result is None else run.bytes_of(outcome.result)
    if data is None or outcome is None:
        return ""
    if outcome.head is not None:
        try:
            data = decoded_body(data, outcome.head.headers)
        except CodingError:
            return ""
    return data.decode("utf-8", "replace")


def _pieces(difference: Difference) -> list[tuple[str, str]]:
    if difference.before is MISSING or difference.after is MISSING:
        return []
    return _changed_words(_text(difference.before), _text(difference.after))


def _changed_words(old: str, new: str) -> list[tuple[str, str]]:
    """Return the words in which two texts differ, old beside new, by position from both ends."""
    left, right = _WORD.findall(old), _WORD.findall(new)
    while left and right and left[0] == right[0]:
        del left[0], right[0]
    while left and right and left[-1] == right[-1]:
        del left[-1], right[-1]
    if len(left) != len(right):
        return [(" ".join(left), " ".join(right))]
    return [(was, now) for was, now in zip(left, right, strict=True) if was != now]


def _text(value: Any) -> str:
    if value is MISSING:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def rules_for(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the volatile rules that leave out these places: equal but for positions, they become one with `[*]`.

    >>> rules_for(["messages[0].content", "tags[0]", "tags[1]"])
    ('messages[0].content', 'tags[*]')
    """
    shapes: dict[str, set[str]] = {}
    for path in paths:
        shapes.setdefault(re.sub(r"\[\d+\]", "[*]", path), set()).add(path)
    return tuple(next(iter(members)) if len(members) == 1 else shape for shape, members in shapes.items())
