"""How well two runs are aligned: known mutations of synthetic runs, the truth kept; F1 of pairs, first departure found.

Real runs, where they are here, are mutated alike and judged by the same rule.

Every method pairs the same runs and is judged by the same rule: which node differs first is read off its pairs. Ours
is taken through `compare`; what it reports as the departure is judged besides. Exact tree edit distance is too slow
for the full size in Python and is measured, beside ours, on smaller runs.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import real_runs
import tree_peers
from measure import Figure, report
from mutated_runs import Maker, Mutation, Piece, recorded

from otel_agent_replay.compare import Added, Changed, Comparison, Moved, NodeRef, Removed, compare
from otel_agent_replay.model import Kind, RecordedRun

COLUMNS: dict[str, tuple[tuple[str, ...], float]] = {
    "structure 3%": (("insert", "delete"), 0.03),
    "structure + payload 5%": (("insert", "payload", "delete", "payload"), 0.05),
    "payload 5%": (("payload",), 0.05),
    "wrap/unwrap 3%": (("wrap", "unwrap"), 0.03),
    "reorder 5%": (("reorder",), 0.05),
    "all 5%": (("insert", "payload", "wrap", "delete", "reorder", "unwrap", "rename"), 0.05),
}
MIXED = "all 5%"
LARGE, SMALL = 600, 120
SMALL_SEEDS = 6

Pairs = list[tuple[int, int]]
Event = tuple[str, int] | tuple[str, int, int]


@dataclass(frozen=True)
class Trial:
    """A run, its mutated copy, and what was done to it."""

    a: Piece
    b: Piece
    mutations: Sequence[Mutation]

    @property
    def truth(self) -> set[int]:
        """The uids that both have: each is its own partner."""
        return {node.uid for node in self.a.all()} & {node.uid for node in self.b.all()}


@dataclass
class Score:
    """What a method did over some trials."""

    f1: float = 0.0
    found: int = 0
    reported: int = 0
    trials: int = 0


def trial(column: str, nodes: int, seed: int) -> Trial:
    """Return the trial of a column with a seed."""
    maker = Maker(seed)
    a = maker.run(nodes)
    kinds, share = COLUMNS[column]
    b, mutations = maker.mutate(a, kinds, share)
    return Trial(a, b, mutations)


def compared(case: Trial) -> Comparison:
    """Compare the two runs of a trial."""
    return compare(recorded(case.a, 1), recorded(case.b, 2))


def true_pairs(case: Trial) -> Pairs:
    """Return the true pairs: a node that both have is its own partner."""
    return [(uid, uid) for uid in case.truth]


def pairs_of(comparison: Comparison) -> Pairs:
    """Return the pairs of a comparison as uids."""
    rows = [row for row in comparison.rows if row.a is not None and row.b is not None]
    return [(int.from_bytes(row.a.span_id, "big"), int.from_bytes(row.b.span_id, "big")) for row in rows]


def ours(a: Piece, b: Piece) -> Pairs:
    """Our pairs."""
    return pairs_of(compared(Trial(a, b, ())))


def f1(case: Trial, pairs: Pairs) -> float:
    """Return F1 of pairs against the truth, the root left out."""
    truth = case.truth - {case.a.uid}
    proposed = [pair for pair in pairs if pair != (case.a.uid, case.b.uid)]
    right = sum(one == other for one, other in proposed)
    return 2 * right / (len(truth) + len(proposed)) if truth or proposed else 1.0


def first_different(case: Trial, pairs: Pairs, *, orders: bool = True) -> set[Event]:
    """Return what differs first when these pairs are believed: a node alone, two altered, two in another order.

    Several where they lie between the same two paired nodes. With the true pairs this is the truth. Without `orders`,
    steps in another order (here always parallel ones) are no difference.
    """
    nodes_a, nodes_b = ({node.uid: node for node in root.all()} for root in (case.a, case.b))
    order = _order_of(case, pairs)
    to_b = dict(pairs)
    alone = (nodes_a.keys() - to_b.keys()) | (nodes_b.keys() - set(to_b.values()))
    events: set[Event] = {("alone", uid) for uid in alone}
    for one, other in pairs:
        left, right = nodes_a[one], nodes_b[other]
        if (left.name, left.asks, left.answers) != (right.name, right.asks, right.answers):
            events.add(("altered", one, other))
    place = {node.uid: number for number, node in enumerate(case.b.all())}
    for node in case.a.all():
        kept = [child.uid for child in node.children if child.uid in to_b]
        for one, other in zip(kept, kept[1:]):
            if orders and place[to_b[one]] > place[to_b[other]]:
                events.add(("order", one, other))
    moment = {event: min(order(uid) for uid in event[1:]) for event in events}
    first = min(moment.values(), default=0)
    return {event for event in events if moment[event] == first}


def reported(comparison: Comparison) -> set[Event]:
    """Return the departure that `compare` reports, and what the other run did instead."""
    departure = comparison.departure
    found: set[Event] = set()
    for change in [] if departure is None else [departure.change, departure.counterpart]:
        if isinstance(change, (Added, Removed)):
            found.add(("alone", _uid(change.b if isinstance(change, Added) else change.a)))
        elif isinstance(change, (Changed, Moved)):
            found.add(("altered" if isinstance(change, Changed) else "order", _uid(change.a), _uid(change.b)))
    return found


def _uid(node: NodeRef) -> int:
    return int.from_bytes(node.span_id, "big")


def _order_of(case: Trial, pairs: Pairs) -> Callable[[int], int]:
    """Return a measure of both runs: how many paired nodes lie before a node, in the run where that is less."""
    order: dict[int, int] = {}
    for root, paired in ((case.a, {one for one, _ in pairs}), (case.b, {other for _, other in pairs})):
        at = [number for number, node in enumerate(root.all()) if node.uid in paired]
        for number, node in enumerate(root.all()):
            before = bisect_left(at, number)
            order[node.uid] = min(before, order.get(node.uid, before))
    return order.__getitem__


METHODS: dict[str, Callable[[Piece, Piece], Pairs]] = {
    "path sets (Jaeger's idea)": tree_peers.path_sets,
    "name buckets (Tempo's idea)": tree_peers.name_buckets,
    "occurrence among siblings": tree_peers.occurrence_among_siblings,
    "flat LCS": tree_peers.flat_lcs,
    "flat LCS, payload first": tree_peers.flat_lcs_payload_first,
}


def judge(method: Callable[[Piece, Piece], Pairs], column: str, nodes: int, seeds: Sequence[int]) -> Score:
    """Return what a peer scores."""
    score = Score(trials=len(seeds))
    for seed in seeds:
        case = trial(column, nodes, seed)
        pairs = method(case.a, case.b)
        score.f1 += f1(case, pairs) / len(seeds)
        score.found += bool(first_different(case, true_pairs(case)) & first_different(case, pairs))
    return score


def judge_ours(column: str, nodes: int, seeds: Sequence[int]) -> Score:
    """Return what ours scores; `reported`: the departure of `compare`, to which the order of parallel steps is none."""
    score = Score(trials=len(seeds))
    for seed in seeds:
        case = trial(column, nodes, seed)
        comparison = compared(case)
        pairs = pairs_of(comparison)
        score.f1 += f1(case, pairs) / len(seeds)
        score.found += bool(first_different(case, true_pairs(case)) & first_different(case, pairs))
        truth, told = first_different(case, true_pairs(case), orders=False), reported(comparison)
        score.reported += bool(truth & told) if truth else not told
    return score


def table(nodes: int, seeds: Sequence[int], methods: dict[str, Callable[[Piece, Piece], Pairs]]) -> dict[str, Score]:
    """Print a row a method, a column a mutation; return our scores by column."""
    print(f"\n{nodes} nodes x {len(seeds)}: F1 of pairs (first departure found), as compare reports it last")
    print(f"{'':28}" + "".join(f"{column:>24}" for column in COLUMNS))
    for name, method in methods.items():
        scores = [judge(method, column, nodes, seeds) for column in COLUMNS]
        print(f"{name:28}" + "".join(f"{f'{score.f1:.3f} ({score.found})':>24}" for score in scores), flush=True)
    mine = {column: judge_ours(column, nodes, seeds) for column in COLUMNS}
    cells = (f"{score.f1:.3f} ({score.found}, {score.reported})" for score in mine.values())
    print(f"{'ours':28}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    return mine


REAL = (
    "tau-bench/*.json",
    "tau2-bench/*.json",
    "swe-agent/*/*.traj",
    "ljoukov-llm/*/*/run-?.json",
    "who-and-when/*/*.json",
)
"""Files of real trajectories, imported as `agent-replay import` does; runs of fewer than five steps are left out."""


def real_pieces() -> dict[str, list[Piece]]:
    """Return imported trajectories by where they come from, with their own words; {} where they are not here."""
    found = {pattern.partition("/")[0]: [_piece(item.run) for item in real_runs.real_runs(pattern)] for pattern in REAL}
    return {name: [run for run in runs if len(run.children) >= 5] for name, runs in found.items() if runs}


def _piece(run: RecordedRun) -> Piece:
    """Return a run as a tree of pieces. A model is asked with its last message; all before it was said before."""
    root = Piece(1, Kind.RUN, "agent")
    for uid, node in enumerate((node for node in run.nodes if node.step is not None), 2):
        asked = real_runs.content(run, node, "call")
        if node.kind is Kind.MODEL:
            messages = asked["messages"]
            asked = [len(messages), messages[-1:]]
        answered = real_runs.said(run, node)
        root.children.append(Piece(uid, node.kind, node.name, json.dumps(asked), answered))
    return root


def judge_real(runs: Sequence[Piece], share: float) -> Score:
    """Return what ours scores on real runs that were mutated as the mixed column says."""
    score = Score()
    for seed, a in enumerate(runs):
        maker = Maker(seed, first=10_000)
        b, mutations = maker.mutate(a, COLUMNS[MIXED][0], share)
        case = Trial(a, b, mutations)
        comparison = compared(case)
        score.trials += 1
        score.f1 += f1(case, pairs_of(comparison))
        truth, told = first_different(case, true_pairs(case), orders=False), reported(comparison)
        score.reported += bool(truth & told) if truth else not told
    score.f1 /= max(score.trials, 1)
    return score


def main() -> int:
    """Print the tables and judge ours by its floors."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    mine = table(LARGE, seeds, METHODS)
    table(SMALL, range(min(SMALL_SEEDS, len(seeds))), {"exact edit distance": tree_peers.edit_distance})
    trials = len(seeds)
    figures = [
        Figure(f"F1 of pairs, {column}", round(score.f1, 4), 0.95, "", at_most=False, detail=f"{trials} runs")
        for column, score in mine.items()
    ]
    for name, count in (("read off the pairs", mine[MIXED].found), ("as reported", mine[MIXED].reported)):
        figures.append(
            Figure(f"first departure found, {MIXED}, {name}", 20 * count / trials, 17, "of 20 trials", at_most=False)
        )
    for name, runs in real_pieces().items():
        real = judge_real(runs, 0.1)
        detail = f"{real.trials} real runs, a tenth of their steps mutated"
        found = 20 * real.reported / real.trials
        figures.append(Figure(f"F1 of pairs, {name}", round(real.f1, 4), 0.95, "", at_most=False, detail=detail))
        figures.append(
            Figure(f"first departure, {name}", round(found, 1), 17, "of 20 trials", at_most=False, detail=detail)
        )
    if len(figures) == len(mine) + 2:
        print("no trajectories here: real runs were not measured")
    return report("align_quality", figures)


if __name__ == "__main__":
    raise SystemExit(main())
