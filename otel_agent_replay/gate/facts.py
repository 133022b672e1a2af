"""What invariants look at in a recorded run: the calls that were made, its states, its input and its end. Pure.

A call's bytes that were not kept are UNREAD, never empty: who asks about them gets no answer instead of a wrong one.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.compare.concurrency import are_apart
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.model import (
    AnswerSource,
    Kind,
    LossReason,
    Node,
    OutcomeStatus,
    RecordedRun,
    RecordedSpan,
    Run,
    SideEffect,
)

ASKS = "asks"
_HIDING = frozenset((LossReason.DROPPED, LossReason.SAMPLED, LossReason.TORN, LossReason.INTERNAL))
_EFFECTS = frozenset((SideEffect.WRITE, SideEffect.EXTERNAL))
_ACTING = frozenset((Kind.TOOL, Kind.HTTP))
_ASKED_KINDS = frozenset(
    (Kind.TOOL, Kind.HTTP, Kind.MODEL, Kind.RETRIEVAL, Kind.DECISION, Kind.APPROVAL, Kind.CHECKPOINT, Kind.INPUT)
)
_UNREACHED = re.compile(r"ConnectionRefused|ConnectError|ConnectTimeout|NewConnection|NameResolution|gaierror")
_FIELDS = ("fields", "items", "value")


class Absent(enum.Enum):
    """Where there is no value: none there, or one whose bytes were not kept."""

    MISSING = "missing"
    UNREAD = "unread"


UNREAD = Absent.UNREAD
MISSING = Absent.MISSING


@dataclass(frozen=True, slots=True)
class Made:
    """A call as it was made. `kind` is a key of `case.yaml` (tool, http ... asks), `also` another name it goes by.

    `arguments` and `result` are JSON (of HTTP the bodies), or UNREAD. `outcome` is ok, error, cancelled or pending.
    `effect` tells that it changes the world; `happened` whether that came about (None: in doubt, it failed on the way);
    `again` that its answer came from an earlier go at the same run. `strand` labels the thread of control.
    """

    kind: str
    name: str
    step: int | None
    path: str
    sequence: int
    end_sequence: int
    arguments: Any
    result: Any
    outcome: str
    also: str = ""
    effect: bool = False
    happened: bool | None = True
    again: bool = False
    key: str = ""
    strand: str = ""

    @property
    def label(self) -> str:
        """What evidence calls it."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run used. None: somebody did not tell; then `known` is what the others told."""

    total: float | None
    known: float


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as invariants see it. `calls` are in the order they began; `earlier` were superseded by a later attempt.

    `hidden` says what may have been lost of its calls ("": nothing).
    """

    run: Run
    calls: Sequence[Made]
    input: Any
    output: Any
    error: str
    earlier: Sequence[Made] = ()
    hidden: str = ""
    refused_by_model: bool = False
    spent: Mapping[str, Spent] = field(default_factory=dict)

    @property
    def effects(self) -> list[Made]:
        """The calls that change the world; what such a call makes below itself is part of it."""
        acting = [made for made in self.calls if made.effect]
        within = tuple(f"{made.path}/" for made in acting)
        return [made for made in acting if not made.path.startswith(within)]

    def leads(self, one: Made, other: Made) -> bool:
        """Whether `one` was over before `other` began by the code's doing and not by luck, as in a race of threads.

        One thread of control waited for both, or a third call lies between that has to do with either.
        """
        if not _is_over(one, other):
            return False
        return _waits(one, other) or any(_waits(one, made) and _waits(made, other) for made in self.calls)

    @property
    def checkpoints(self) -> list[Made]:
        """The save-points it declared."""
        return [made for made in self.calls if made.kind == Kind.CHECKPOINT.value]

    @property
    def ended(self) -> bool:
        """Whether the recording has its end."""
        return self.run.status.value != "pending"

    @classmethod
    def of(cls, recorded: RecordedRun) -> RunFacts:
        """Return the facts of a run."""
        reader = _Reader(recorded)
        calls = sorted(reader.calls(recorded.spans), key=lambda made: (made.sequence, made.kind == ASKS, made.path))
        root, outcome = recorded.root, recorded.outcome
        failure = None if outcome is None else outcome.failure
        return cls(
            recorded.run,
            calls,
            UNREAD if root is None else reader.arguments(root),
            reader.output(root),
            "" if failure is None else failure.type,
            tuple(reader.calls(recorded.superseded)),
            _hidden(recorded),
            reader.refused_last,
            _spent(recorded),
        )


class _Reader:
    """Reads the nodes of one run."""

    def __init__(self, recorded: RecordedRun) -> None:
        self._substance = RunSubstance(recorded)
        self._resumed = recorded.run.attempt > 1
        self._last_answer: tuple[int, Any] = (-1, MISSING)
        self.refused_last = False

    def calls(self, spans: Sequence[RecordedSpan]) -> Iterator[Made]:
        """Yield the calls, and behind each model call those that its answer asks for."""
        for item in spans:
            node = item.node
            if node is None or node.kind not in _ASKED_KINDS:
                continue
            made = self._made(item, node)
            yield made
            if node.kind is Kind.MODEL:
                yield from self._asked(made)

    def arguments(self, item: RecordedSpan) -> Any:
        """Return what was asked, as JSON."""
        found = self._substance.request(item)
        if found is None:
            return MISSING
        if not found.known:
            return UNREAD
        tree = found.tree
        over_http = item.node is not None and item.node.call is not None and item.node.call.head is not None
        return settled(tree.get("body") if over_http and isinstance(tree, dict) else tree)

    def output(self, root: RecordedSpan | None) -> Any:
        """Return the run's result; where it has none, the text of its last model answer."""
        outcome = None if root is None or root.node is None else root.node.outcome
        if root is not None and outcome is not None and outcome.result is not None:
            found = self._substance.result(root)
            if found is not None and not found.known:
                return UNREAD
            if found is not None and found.tree is not None:
                return settled(found.tree)
        last = self._last_answer[1]
        return last.get("text", MISSING) if isinstance(last, Mapping) else last

    def _made(self, item: RecordedSpan, node: Node) -> Made:
        found = self._substance.result(item) if node.outcome is not None else None
        result = MISSING if found is None else settled(found.tree) if found.known else UNREAD
        if node.kind is Kind.HTTP and isinstance(result, Mapping):
            result = result.get("body", MISSING)
        model = item.span.attributes.get(semconv.REQUEST_MODEL) or ""
        return Made(
            node.kind.value,
            node.name,
            node.step,
            "/".join(node.path),
            node.sequence,
            node.end_sequence,
            self.arguments(item),
            result,
            _ended(node),
            also=str(model) if node.kind is Kind.MODEL else "",
            effect=node.kind in _ACTING and node.side_effect in _EFFECTS,
            happened=_happened(node),
            again=node.source is AnswerSource.LEDGER or (self._resumed and node.source is AnswerSource.TAPE),
            key="" if node.call is None else node.call.idempotency_key,
            strand=node.strand,
        )

    def _asked(self, made: Made) -> Iterator[Made]:
        answer = made.result
        if made.sequence > self._last_answer[0]:
            self._last_answer = (made.sequence, answer)
            refusing = isinstance(answer, Mapping) and bool(
                answer.get("refusal") or answer.get("finish_reason") in ("refusal", "content_filter")
            )
            self.refused_last = refusing
        if not isinstance(answer, Mapping):
            return
        for call in answer.get("tool_calls") or ():
            name, arguments = str(call.get("name", "")), settled(call.get("arguments"))
            yield Made(ASKS, name, made.step, made.path, made.sequence, made.end_sequence, arguments, MISSING, "ok")


def _is_over(one: Made, other: Made) -> bool:
    return bool(one.end_sequence) and one.end_sequence <= other.sequence


def _waits(one: Made, other: Made) -> bool:
    return _is_over(one, other) and not are_apart(one.strand, other.strand)


def settled(tree: Any) -> Any:
    """Return a tree of typed JSON with the tags of containers and objects taken off, for paths to walk.

    >>> settled({"$type": "tuple", "items": [1, 2]})
    [1, 2]
    """
    if isinstance(tree, list):
        return [settled(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$type" not in tree:
        return {key: settled(value) for key, value in tree.items()}
    inner = next((tree[name] for name in _FIELDS if name in tree), None)
    if inner is None:
        return {key: settled(value) for key, value in tree.items()}
    pairs = isinstance(inner, list) and tree["$type"] in ("dict", "defaultdict", "ordered_dict")
    if pairs and all(isinstance(pair, list) and len(pair) == 2 for pair in inner):
        return {str(settled(key)): settled(value) for key, value in inner}
    return settled(inner)


def _ended(node: Node) -> str:
    outcome = node.outcome
    if outcome is None:
        return OutcomeStatus.PENDING.value
    if outcome.status is OutcomeStatus.OK and outcome.head is not None and outcome.head.status >= 400:
        return OutcomeStatus.ERROR.value
    return outcome.status.value


def _happened(node: Node) -> bool | None:
    """Return whether it came about: not when turned down, or where nobody was reached; else unknown if it failed."""
    outcome = node.outcome
    if _ended(node) == OutcomeStatus.OK.value:
        return True
    if outcome is not None and outcome.head is not None and outcome.failure is None:
        return False if 400 <= outcome.head.status < 500 else None
    if node.source is AnswerSource.REFUSED:
        return False
    failure = None if outcome is None else outcome.failure
    return False if failure is not None and _UNREACHED.search(failure.type) else None


def _hidden(recorded: RecordedRun) -> str:
    told = [f"{loss.count} {loss.what} {loss.reason.value}" for loss in recorded.losses if loss.reason in _HIDING]
    return ", ".join(told)


def _spent(recorded: RecordedRun) -> dict[str, Spent]:
    models = [item.span.attributes for item in recorded.spans if item.node is not None and item.node.kind is Kind.MODEL]
    found = {
        "input_tokens": _sum(models, semconv.USAGE_INPUT_TOKENS),
        "output_tokens": _sum(models, semconv.USAGE_OUTPUT_TOKENS),
        "cost_usd": _sum(models, semconv.COST_USD),
    }
    both = found["input_tokens"], found["output_tokens"]
    known = both[0].known + both[1].known
    told = all(one.total is not None for one in both)
    found["tokens"] = Spent(known if told else None, known)
    steps = len({node.step for node in recorded.nodes if node.step is not None})
    found["steps"] = Spent(steps, steps)
    found["model_calls"] = Spent(len(models), len(models))
    run = recorded.run
    took = (run.ended_ns - run.started_ns) / 1e9
    last = max((item.span.end_ns for item in recorded.spans), default=0)
    found["seconds"] = Spent(took, took) if run.ended_ns else Spent(None, max(0.0, (last - run.started_ns) / 1e9))
    return found


def _sum(attributes: Sequence[Mapping[str, Any]], name: str) -> Spent:
    told = [one[name] for one in attributes if isinstance(one.get(name), (int, float))]
    return Spent(sum(told) if len(told) == len(attributes) else None, sum(told))
