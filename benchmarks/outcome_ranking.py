"""Whether the report's ranking of differences tells a failing run from a passing one of the same task.

Two sets of real runs whose outcome is known: tau-bench (airline, 12 tasks x 4 trials) and a file-system benchmark (3 tasks
x 18 runs of six models). Every two runs of a task are compared; four questions, each an AUC (0.5: by chance) over
comparisons within one task, with an interval by drawing tasks again:

    apart       two runs of different outcome differ more than two of the same outcome
    reference   held against a passing run, a failing one differs more than another passing one
    same model  the same, among runs of one model: elsewhere a likeness may tell the model and not the outcome
    direction   of a passing and a failing run, going from the passing to the failing one ranks as the worse change

Ours is the highest rank among the changes that are no improvement, then the sum of their ranks; the sum alone stands
beside. Peers: the final texts' difference, and edit distance over steps (who, and what it came to) and over letters of
all that was said. They have no direction: there they are at chance by construction. Nothing was fitted to these runs.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from measure import Figure, report
from rapidfuzz.distance import Indel, Levenshtein
from real_runs import RealRun, final_text, real_runs, said

from otel_agent_replay.compare import compare, rank_changes

SETS = {"tau-bench": "tau-bench/*.json", "ljoukov-llm": "ljoukov-llm/*/*/run-?.json"}
DRAWS = 2000
OURS = "ours: top rank, then sum"

Score = tuple[float, ...]
Wins = tuple[float, int]


@dataclass(frozen=True)
class Pair:
    """Two runs of a task, from `a` to `b`, with every method's score of the difference."""

    a: RealRun
    b: RealRun
    scores: Mapping[str, Score]


def ranked(a: RealRun, b: RealRun) -> dict[str, Score]:
    """Return our scores of the way from a to b."""
    comparison = compare(a.run, b.run)
    worse = [item.risk for item in rank_changes(comparison, a.run, b.run) if not item.is_improvement]
    top, total = float(max(worse, default=0)), float(sum(worse))
    return {
        OURS: (top, total),
        "ours: sum of ranks": (total,),
        "ours: dissimilarity": (1 - comparison.trust.similarity,),
    }


def peers(a: RealRun, b: RealRun) -> dict[str, Score]:
    """Return the scores of methods that know text only; the same both ways."""
    steps_a, steps_b = _steps(a), _steps(b)
    return {
        "final text": (Indel.normalized_distance(final_text(a.run), final_text(b.run)),),
        "edit distance of steps": (float(Levenshtein.distance(steps_a, steps_b)),),
        "edit distance of letters": (float(Levenshtein.distance("\n".join(steps_a), "\n".join(steps_b))),),
    }


_KNOWN: dict[int, list[str]] = {}


def _steps(item: RealRun) -> list[str]:
    key = id(item)
    if key not in _KNOWN:
        nodes = [node for node in item.run.nodes if node.step is not None]
        _KNOWN[key] = [f"{node.kind} {node.name} {said(item.run, node)}" for node in nodes]
    return _KNOWN[key]


def pairs_of(runs: Sequence[RealRun]) -> list[Pair]:
    """Return every ordered pair of runs of one task."""
    made = []
    for number, a in enumerate(runs):
        for b in runs[number + 1 :]:
            alike = peers(a, b)
            made += [Pair(a, b, {**ranked(a, b), **alike}), Pair(b, a, {**ranked(b, a), **alike})]
    return made


def won(higher: Sequence[Score], lower: Sequence[Score]) -> Wins:
    """Return how often one of `higher` is above one of `lower`, a tie being half, and of how many."""
    return sum(1.0 if one > other else 0.5 if one == other else 0.0 for one in higher for other in lower), len(
        higher
    ) * len(lower)


def apart(pairs: Sequence[Pair], method: str) -> Wins:
    """See the module."""
    both: dict[bool, list[Score]] = {True: [], False: []}
    by_ends = {(id(pair.a), id(pair.b)): pair for pair in pairs}
    for pair in pairs:
        if id(pair.a) < id(pair.b):
            back = by_ends[id(pair.b), id(pair.a)]
            both[pair.a.passed != pair.b.passed].append(max(pair.scores[method], back.scores[method]))
    return won(both[True], both[False])


def reference(pairs: Sequence[Pair], method: str) -> Wins:
    """See the module."""
    by_reference: dict[int, dict[bool, list[Score]]] = defaultdict(lambda: {True: [], False: []})
    for pair in pairs:
        if pair.a.passed:
            by_reference[id(pair.a)][pair.b.passed].append(pair.scores[method])
    found = [won(one[False], one[True]) for one in by_reference.values()]
    return sum(wins for wins, _ in found), sum(count for _, count in found)


def same_model(pairs: Sequence[Pair], method: str) -> Wins:
    """See the module."""
    return reference([pair for pair in pairs if _model(pair.a) == _model(pair.b)], method)


def _model(item: RealRun) -> str:
    return item.run.run.versions.model_route


def direction(pairs: Sequence[Pair], method: str) -> Wins:
    """See the module."""
    by_ends = {(id(pair.a), id(pair.b)): pair for pair in pairs}
    found = [
        won([pair.scores[method]], [by_ends[id(pair.b), id(pair.a)].scores[method]])
        for pair in pairs
        if pair.a.passed and not pair.b.passed
    ]
    return sum(wins for wins, _ in found), len(found)


QUESTIONS: dict[str, Callable[[Sequence[Pair], str], Wins]] = {
    "apart": apart,
    "reference": reference,
    "same model": same_model,
    "direction": direction,
}


def auc(by_task: Sequence[Wins]) -> float | None:
    """Return the share of comparisons won; None where there is none."""
    count = sum(total for _, total in by_task)
    return sum(wins for wins, _ in by_task) / count if count else None


def interval(by_task: Sequence[Wins]) -> tuple[float, float]:
    """Return the middle 95% over tasks drawn again."""
    draw = random.Random(7)
    informative = [one for one in by_task if one[1]]
    found = sorted(auc(draw.choices(informative, k=len(informative))) or 0.0 for _ in range(DRAWS))
    return found[int(0.025 * DRAWS)], found[int(0.975 * DRAWS) - 1]


def measure(name: str, pattern: str) -> list[Figure]:
    """Print what every method scores on a set; return ours beside its best peer."""
    runs = real_runs(pattern)
    if not runs:
        print(f"no {name} here: not measured")
        return []
    tasks: dict[str, list[RealRun]] = defaultdict(list)
    for item in runs:
        tasks[item.task].append(item)
    passed = {task: sum(item.passed for item in members) for task, members in tasks.items()}
    mixed = {task: members for task, members in tasks.items() if 0 < passed[task] < len(members)}
    print(
        f"\n{name}: {len(runs)} runs, {sum(passed.values())} passed; {len(mixed)} of {len(tasks)} tasks have both outcomes"
    )
    pairs = {task: pairs_of(members) for task, members in mixed.items()}
    methods = list(next(iter(pairs.values()))[0].scores)
    figures = []
    for question, ask in QUESTIONS.items():
        values: dict[str, float] = {}
        for method in methods:
            by_task = [ask(members, method) for members in pairs.values()]
            value = auc(by_task)
            if value is None:
                continue
            values[method] = value
            low, high = interval(by_task)
            informative = sum(1 for _, total in by_task if total)
            count = sum(total for _, total in by_task)
            print(
                f"  {question:10} {method:26} AUC {value:.3f} [{low:.2f} .. {high:.2f}]  {count} comparisons, {informative} tasks"
            )
        if not values:
            print(f"  {question:10} cannot be asked: no task has two passing runs and a failing one")
            continue
        theirs = {method: value for method, value in values.items() if not method.startswith("ours")}
        best = max(theirs, key=theirs.__getitem__)
        low, high = interval([ask(members, OURS) for members in pairs.values()])
        figures.append(
            Figure(
                f"{name}, {question}: AUC of the ranking",
                round(values[OURS], 3),
                round(theirs[best], 3),
                "",
                at_most=False,
                low=low,
                high=high,
                detail=f"best peer: {best}",
            )
        )
    return figures


def main() -> int:
    """Measure both sets."""
    return report("outcome_ranking", [figure for name, pattern in SETS.items() for figure in measure(name, pattern)])


if __name__ == "__main__":
    raise SystemExit(main())
