"""The questions that a comparison answers, each with yes, no, or that it cannot be known.

"No" is said only of what was looked at: the number of compared steps stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import (
    Added,
    Change,
    Changed,
    Field,
    FieldChange,
    Moved,
    NodeRef,
    Placed,
    Removed,
)
from otel_agent_replay.compare.text_facts import compare_texts
from otel_agent_replay.compare.tree import ROOT
from otel_agent_replay.model import Kind, OutcomeStatus, Payload, RecordedRun, Run, RunStatus, Versions, Word


class Asked(Word):
    """What is asked of every comparison."""

    VERSIONS = "versions"
    INPUT = "the run's input"
    RETRIEVED = "retrieved context"
    TOOL_ARGUMENTS = "tool arguments"
    TOOL_RESULTS = "tool results"
    DECISIONS = "decisions"
    APPROVALS = "approvals"
    MODEL_ANSWERS = "model answers"
    FINISH_REASONS = "finish reasons"
    FINAL_ANSWER = "final answer"
    JUDGED = "final answer, by a judge"  # asked only where somebody brings one
    EXPECTED = "expected change"  # asked only where somebody says what was to change


class Reply(Word):
    """The answer to one question."""

    YES = "changed"
    NO = "same"
    UNKNOWN = "cannot be known"
    NOTHING = "none in either run"


@dataclass(frozen=True, slots=True)
class Question:
    """One question answered: `compared` pairs were looked at, `differing` changes found, `first` among them."""

    asked: Asked
    reply: Reply
    compared: int
    differing: int
    first: NodeRef | None = None
    detail: str = ""


_CALL_FIELDS = frozenset({Field.REQUEST, Field.NAME})
_ANSWER_FIELDS = frozenset({Field.RESULT, Field.STATUS, Field.FAILURE})
_MODEL_FIELDS = frozenset({Field.TEXT, Field.TOOL_CALLS, Field.STATUS, Field.FAILURE})
_BY_KIND: Sequence[tuple[Asked, Kind, frozenset[Field]]] = (
    (Asked.RETRIEVED, Kind.RETRIEVAL, _ANSWER_FIELDS),
    (Asked.TOOL_ARGUMENTS, Kind.TOOL, _CALL_FIELDS),
    (Asked.TOOL_RESULTS, Kind.TOOL, _ANSWER_FIELDS),
    (Asked.DECISIONS, Kind.DECISION, _ANSWER_FIELDS),
    (Asked.APPROVALS, Kind.APPROVAL, _ANSWER_FIELDS),
    (Asked.MODEL_ANSWERS, Kind.MODEL, _MODEL_FIELDS),
    (Asked.FINISH_REASONS, Kind.MODEL, frozenset({Field.FINISH_REASON})),
)


def answer_questions(a: RecordedRun, b: RecordedRun, sides: Sides, placed: Sequence[Placed]) -> list[Question]:
    """Return every question's answer, in the order of `Asked`."""
    changes = [item.change for item in placed]
    answers: dict[Asked, Question] = {Asked.VERSIONS: _versions(a.run, b.run)}
    for asked, kind, fields in _BY_KIND:
        answers[asked] = _of_kind(asked, kind, fields, sides, changes)
    answers[Asked.INPUT] = _root(Asked.INPUT, sides, changes, lambda field: field.is_request)
    answers[Asked.FINAL_ANSWER] = _root(Asked.FINAL_ANSWER, sides, changes, _ANSWER_FIELDS.__contains__)
    return [answers[asked] for asked in Asked if asked in answers]


_STOPPED = {
    RunStatus.DEPARTED: ", a replay that stopped early",
    RunStatus.PENDING: ", whose recording has no end",
    RunStatus.ABORTED: ", which was stopped early",
}
"""What is said of a run that may not have come to where it learns its versions: clients are loaded on the way."""
_GATHERED = frozenset({"tool_schema", "model_route"})  # of every model call, with commas between them


def _versions(a: Run, b: Run) -> Question:
    """Answer whether the versions changed; one that a run never learnt is told apart, and is no change."""
    changed: list[str] = []
    unlearnt: dict[str, list[str]] = {"A": [], "B": []}
    for name, before, after in _version_differences(a.versions, b.versions):
        if _never_learnt(name, after, before, b):
            unlearnt["B"].append(f"{name} ({before} in A{f', {after} so far' if after else ''})")
        elif _never_learnt(name, before, after, a):
            unlearnt["A"].append(f"{name} ({after} in B{f', {before} so far' if before else ''})")
        else:
            changed.append(f"{name}: {before} -> {after}")
    told = [
        f"not known in {side}{_STOPPED.get(run.status, '')}: {', '.join(unlearnt[side])}"
        for side, run in (("A", a), ("B", b))
        if unlearnt[side]
    ]
    reply = Reply.YES if changed else Reply.UNKNOWN if told else Reply.NO
    return Question(Asked.VERSIONS, reply, 1, len(changed), None, "; ".join([*changed, *told]))


def _version_differences(a: Versions, b: Versions) -> list[tuple[str, str, str]]:
    """Return every version that is not the same on both sides: (name, in A, in B); "" where one does not know it."""
    names = ("agent", "prompt", "tool_schema", "model_route", "policy", "index", "code", "source")
    found = [(name, getattr(a, name), getattr(b, name)) for name in names]
    packages: tuple[Mapping[str, str], Mapping[str, str]] = (a.packages, b.packages)
    names_of_packages = sorted(packages[0].keys() | packages[1].keys())
    found += [(f"package {name}", packages[0].get(name, ""), packages[1].get(name, "")) for name in names_of_packages]
    return [item for item in found if item[1] != item[2]]


def _never_learnt(name: str, here: str, there: str, run: Run) -> bool:
    """Return whether `run` knows nothing of a version, or only the part of it that it came to before it stopped."""
    if not here:
        return True
    return name in _GATHERED and run.status in _STOPPED and set(here.split(",")) < set(there.split(","))


def _of_kind(asked: Asked, kind: Kind, fields: frozenset[Field], sides: Sides, changes: Sequence[Change]) -> Question:
    pairs = [pair for pair in sides.alignment.pairs if _is(sides, pair.a, kind)]
    differing: list[NodeRef] = []
    hidden = 0
    one_sided: dict[str, int] = {"A": 0, "B": 0}
    for change in changes:
        if isinstance(change, Changed) and change.a.kind == kind.value:
            if any(item.field in fields for item in change.fields):
                differing.append(change.a)
        elif isinstance(change, (Added, Removed)):
            end, side = (change.b, "B") if isinstance(change, Added) else (change.a, "A")
            inside = _count_below(sides, change, kind)
            if inside:
                differing.append(end)
                one_sided[side] += inside
        elif isinstance(change, Moved) and change.a.kind == kind.value and fields is _CALL_FIELDS:
            differing.append(change.a)
    for pair in pairs:
        hidden += _unended(sides, pair.a, pair.b)
    detail = ", ".join(f"{count} only in {side}" for side, count in one_sided.items() if count)
    if differing:
        return Question(asked, Reply.YES, len(pairs), len(differing), differing[0], detail)
    if not pairs:
        return Question(asked, Reply.NOTHING, 0, 0)
    if hidden and fields is not _CALL_FIELDS:
        return Question(asked, Reply.UNKNOWN, len(pairs), 0, None, f"{hidden} never ended in the recordings")
    return Question(asked, Reply.NO, len(pairs), 0)


def _is(sides: Sides, index: int, kind: Kind) -> bool:
    node = sides.tree_a.nodes[index].node
    return node is not None and node.kind is kind


def _unended(sides: Sides, a: int, b: int) -> int:
    nodes = sides.tree_a.nodes[a].node, sides.tree_b.nodes[b].node
    return any(n is not None and n.outcome is not None and n.outcome.status is OutcomeStatus.PENDING for n in nodes)


def _count_below(sides: Sides, change: Added | Removed, kind: Kind) -> int:
    """Count the nodes of a kind in a one-sided subtree that the other run does not have."""
    if isinstance(change, Added):
        tree, start, paired = sides.tree_b, change.b.index, sides.to_a
    else:
        tree, start, paired = sides.tree_a, change.a.index, sides.to_b
    count = 0
    queue = [start]
    while queue:
        index = queue.pop()
        if index in paired:
            continue
        node = tree.nodes[index].node
        count += node is not None and node.kind is kind
        queue.extend(tree.nodes[index].children)
    return count


def _root(asked: Asked, sides: Sides, changes: Sequence[Change], wanted: Callable[[Field], bool]) -> Question:
    nodes = sides.tree_a.nodes[ROOT].node, sides.tree_b.nodes[ROOT].node
    payloads = [node and _payload(node.call if asked is Asked.INPUT else node.outcome) for node in nodes]
    for change in changes:
        if isinstance(change, Changed) and change.a.index == ROOT:
            fields = [item for item in change.fields if wanted(item.field)]
            if fields:
                said = [", ".join(str(item.field) for item in fields), *_texts(fields)]
                return Question(asked, Reply.YES, 1, 1, change.a, ": ".join(said))
    if all(payload is None for payload in payloads):
        return Question(asked, Reply.NOTHING, 0, 0, None, "not recorded")
    return Question(asked, Reply.NO, 1, 0)


def _texts(fields: Sequence[FieldChange]) -> list[str]:
    """Say which facts differ, where text stands against text."""
    places = [place for item in fields for place in item.differences]
    if len(places) != 1 or not isinstance(places[0].before, str) or not isinstance(places[0].after, str):
        return []
    return [str(compare_texts(places[0].before, places[0].after))]


def _payload(end: object) -> Payload | None:
    found = getattr(end, "request", None) or getattr(end, "result", None)
    return found if isinstance(found, Payload) else None
