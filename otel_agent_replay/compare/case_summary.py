"""What a cohort keeps of a run and of a pair of runs: recorded runs in, small summaries out. Pure.

Owns which facts these are, and the short way: two runs that are equal by their digests are the same without being
aligned, and no payload of theirs is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.compare.changes import Added, Changed, Field, Removed
from otel_agent_replay.compare.cohort import LaneRun, PairSummary
from otel_agent_replay.compare.comparison import Comparison, Verdict, compare
from otel_agent_replay.compare.fingerprint import label_of
from otel_agent_replay.compare.substance import environment_of
from otel_agent_replay.model import AnswerSource, Kind, Node, OutcomeStatus, RecordedRun, SideEffect

InvariantCheck = Callable[[RecordedRun], "bool | None"]
"""Whether something holds of a run; None where the recording does not say."""

_ASKED_OF_THE_TAPE = frozenset({Kind.TOOL, Kind.RETRIEVAL, Kind.HTTP, Kind.APPROVAL, Kind.INPUT})
_ACTS = frozenset({Kind.TOOL, Kind.RETRIEVAL, Kind.HTTP, Kind.APPROVAL})
_CHANGING = frozenset({SideEffect.WRITE, SideEffect.EXTERNAL})
_FILTERED = (
    "refusal content_filter content_filtered safety recitation blocklist prohibited_content spii guardrail_intervened"
)
_REFUSING = frozenset([*_FILTERED.split(), "model_armor"])
_SAID_REFUSAL = re.compile(rb'(?<!\\)"refusal"\s*:\s*"[^"]')


def lane_run(recorded: RecordedRun, invariants: Mapping[str, InvariantCheck] | None = None) -> LaneRun:
    """Return the facts of a run. `invariants` are checks by name."""
    run, nodes = recorded.run, recorded.nodes
    calls = [one for one in recorded.spans if one.node is not None and one.node.kind is Kind.MODEL]
    attributes = [one.span.attributes for one in calls]
    top = [node for node in _top(nodes) if node.side_effect is not SideEffect.NONE]
    answers = Counter(node.source.value for node in top if node.kind in _ASKED_OF_THE_TAPE) if run.replay else {}
    done = [node for node in top if node.kind in _ACTS and node.source is not AnswerSource.REFUSED]
    effects = Counter(f"{node.side_effect} {node.name}" for node in done if node.side_effect in _CHANGING)
    return LaneRun(
        run_id=run.run_id,
        status=run.status.value,
        tool_path=tuple(node.name for node in nodes if node.kind is Kind.TOOL),
        steps=sum(node.step is not None for node in nodes),
        model_calls=len(calls),
        refusals=sum(_refused(recorded, one.span.attributes, one.node) for one in calls),
        errors=sum(_failed(node) for node in nodes if node.step is not None),
        input_tokens=_sum(attributes, semconv.USAGE_INPUT_TOKENS),
        output_tokens=_sum(attributes, semconv.USAGE_OUTPUT_TOKENS),
        cost_usd=_sum(attributes, semconv.COST_USD),
        latency_ns=run.ended_ns - run.started_ns if run.ended_ns else None,
        answers=tuple(sorted(answers.items())),
        effects=tuple(sorted(effects.items())),
        invariants=tuple((name, holds(recorded)) for name, holds in sorted((invariants or {}).items())),
    )


def pair_summary(a: RecordedRun, b: RecordedRun) -> PairSummary:
    """Compare B with A and keep what a cohort needs."""
    if _equal_by_digest(a, b):
        return PairSummary(Verdict.IDENTICAL, by_digest=True)
    return summary_of(compare(a, b))


def summary_of(comparison: Comparison) -> PairSummary:
    """Return what a cohort keeps of a comparison."""
    departure = comparison.departure
    steps: dict[int, bool] = {}
    arguments: Counter[str] = Counter()
    for change in comparison.changes:
        if isinstance(change, Added):
            continue
        gone = isinstance(change, Removed)
        if change.a.step is not None:
            steps[change.a.step] = steps.get(change.a.step, False) or gone
        if isinstance(change, Changed) and change.a.kind == Kind.TOOL.value:
            arguments[change.a.name] += any(one.field is Field.REQUEST for one in change.fields)
    return PairSummary(
        verdict=comparison.verdict,
        sentence=comparison.sentence,
        cause=None if departure is None else departure.cause,
        departure_step=None if departure is None else departure.at.step,
        departure_at="" if departure is None else departure.at.title,
        changes=len(comparison.changes),
        similarity=comparison.trust.similarity,
        argument_changes=tuple(sorted((+arguments).items())),
        changed_steps=tuple(sorted(steps.items())),
        added=sum(isinstance(change, Added) for change in comparison.changes),
    )


def _equal_by_digest(a: RecordedRun, b: RecordedRun) -> bool:
    """Whether both did the same in the same order, by digests alone, and nothing of them was lost.

    Cautious: runs for which this does not hold may still be the same.
    """
    if len(a.spans) != len(b.spans) or a.losses or b.losses:
        return False
    pairs = zip(_facts(a), _facts(b), strict=True)
    return all(one is not None and one == other for one, other in pairs)


def _facts(recorded: RecordedRun) -> Iterator[tuple[Any, ...] | None]:
    """Yield what each span did, by digests; None for one whose end was not seen."""
    places = {one.span.span_id: place for place, one in enumerate(recorded.spans)}
    for one in recorded.spans:
        span, node = one.span, one.node
        if node is None:
            parent = places.get(span.parent_span_id)
            yield label_of(one), parent, span.status_code, span.attributes.get(semconv.ERROR_TYPE)
            continue
        outcome = node.outcome
        if outcome is None and node.kind is Kind.SCOPE:
            yield node.path, environment_of(node)
        elif outcome is None or outcome.status is OutcomeStatus.PENDING:
            yield None
        else:
            result = None if outcome.result is None else outcome.result.digest
            call = None if node.call is None else (node.call.digest, node.side_effect)
            head = None if outcome.head is None else outcome.head.status
            yield node.path, call, outcome.status, result, head, outcome.failure, node.source, environment_of(node)


def _top(nodes: Sequence[Node]) -> list[Node]:
    """Return the crossings that did not happen inside another one."""
    crossings = {node.path for node in nodes if node.kind.is_crossing}
    return [
        node
        for node in nodes
        if node.path in crossings and not any(node.path[:length] in crossings for length in range(1, len(node.path)))
    ]


def _refused(recorded: RecordedRun, attributes: Mapping[str, Any], node: Node | None) -> bool:
    """Whether the model or a filter refused, by the reason it stopped for or by a refusal that it wrote."""
    reasons = attributes.get(semconv.RESPONSE_FINISH_REASONS) or ()
    if any(str(reason).lower() in _REFUSING for reason in ([reasons] if isinstance(reasons, str) else reasons)):
        return True
    result = None if node is None or node.outcome is None else node.outcome.result
    if result is None:
        return False
    data = recorded.bytes_of(result)
    return data is not None and _SAID_REFUSAL.search(data) is not None


def _failed(node: Node) -> bool:
    return node.outcome is not None and node.outcome.status is OutcomeStatus.ERROR


def _sum(calls: Sequence[Mapping[str, Any]], key: str) -> Any:
    known = [call[key] for call in calls if isinstance(call.get(key), (int, float))]
    return sum(known) if known else None
