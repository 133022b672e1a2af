"""Tokens, cost and latency of pairs and of whole runs: numbers, with their base stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay import semconv
from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import NodeRef
from otel_agent_replay.compare.tree import ROOT, Tree
from otel_agent_replay.model import Kind, RecordedSpan


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of both runs; None where it is unknown. A is the base."""

    before: float | None
    after: float | None

    @property
    def absolute(self) -> float | None:
        """B minus A."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def relative(self) -> float | None:
        """The difference as a share of A's number; None when that is 0 or unknown."""
        return None if self.absolute is None or not self.before else self.absolute / self.before


@dataclass(frozen=True, slots=True)
class Measures:
    """Latency in nanoseconds, tokens as the provider counted them, cost in US dollars."""

    latency_ns: Measure
    input_tokens: Measure
    output_tokens: Measure
    cost_usd: Measure


@dataclass(frozen=True, slots=True)
class NodeMeasures:
    """The numbers of one node; `a` or `b` is None for a node of one run only."""

    a: NodeRef | None
    b: NodeRef | None
    measures: Measures


def measure_nodes(sides: Sides) -> list[NodeMeasures]:
    """Return the numbers of every node but the roots: pairs first, then A's own, then B's own."""
    result = []
    for pair in sides.alignment.pairs:
        if pair.a != ROOT:
            one, other = sides.tree_a.nodes[pair.a].recorded, sides.tree_b.nodes[pair.b].recorded
            result.append(NodeMeasures(sides.at_a(pair.a), sides.at_b(pair.b), _measures(one, other)))
    result += [
        NodeMeasures(sides.at_a(node.index), None, _measures(node.recorded, None))
        for node in sides.tree_a.nodes
        if node.index not in sides.to_b
    ]
    result += [
        NodeMeasures(None, sides.at_b(node.index), _measures(None, node.recorded))
        for node in sides.tree_b.nodes
        if node.index not in sides.to_a
    ]
    return result


def measure_runs(tree_a: Tree, tree_b: Tree) -> Measures:
    """Return the totals: the run's latency, and the sums over its model calls (None when no call tells)."""
    return Measures(
        Measure(_latency(tree_a.nodes[ROOT].recorded), _latency(tree_b.nodes[ROOT].recorded)),
        *(
            Measure(_total(tree_a, key), _total(tree_b, key))
            for key in (semconv.USAGE_INPUT_TOKENS, semconv.USAGE_OUTPUT_TOKENS, semconv.COST_USD)
        ),
    )


def _measures(one: RecordedSpan | None, other: RecordedSpan | None) -> Measures:
    return Measures(
        Measure(_latency(one), _latency(other)),
        Measure(_number(one, semconv.USAGE_INPUT_TOKENS), _number(other, semconv.USAGE_INPUT_TOKENS)),
        Measure(_number(one, semconv.USAGE_OUTPUT_TOKENS), _number(other, semconv.USAGE_OUTPUT_TOKENS)),
        Measure(_number(one, semconv.COST_USD), _number(other, semconv.COST_USD)),
    )


def _latency(recorded: RecordedSpan | None) -> float | None:
    if recorded is None or not recorded.span.end_ns:
        return None
    return recorded.span.end_ns - recorded.span.start_ns


def _number(recorded: RecordedSpan | None, key: str) -> float | None:
    value = None if recorded is None else recorded.span.attributes.get(key)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _total(tree: Tree, key: str) -> float | None:
    """Sum over our model calls; where there is none of ours, over other libraries' spans."""
    ours = [node.recorded for node in tree.nodes if node.node is not None and node.node.kind is Kind.MODEL]
    foreign = [node.recorded for node in tree.nodes if node.node is None]
    numbers: Sequence[float | None] = [_number(recorded, key) for recorded in (ours or foreign)]
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
