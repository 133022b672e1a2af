"""Where the way back from a differing final answer ends, on real runs: at a cause or in the unknown.

Pairs of trials of the same task by the same agent (tau-bench airline, 48 runs, every two of the four trials of a task).
The request carries what earlier steps answered, so the way from the final answer back should reach the first equal
request that was answered differently. Counted are where the ways end, over how many steps, what they rest on, and how
many reach the very step where the runs part. The floor in the same run: looking one step back only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from measure import Figure, report
from real_runs import RealRun, real_runs

from otel_agent_replay.compare import Comparison, HopBasis, Walk, WalkEnd, compare, explain, final_answer

PATTERN = "tau-bench/*.json"


def ways(runs: list[RealRun]) -> Iterator[tuple[Comparison, Walk]]:
    """Yield the comparison and the way of each pair of a task whose final answers differ."""
    tasks: dict[str, list[RealRun]] = defaultdict(list)
    for item in runs:
        tasks[f"{item.place.rpartition('/')[0]} {item.task}"].append(item)
    for members in tasks.values():
        for one, other in combinations(members, 2):
            comparison = compare(one.run, other.run)
            walk = final_answer(comparison, explain(one.run, other.run, comparison))
            if walk is not None:
                yield comparison, walk


def main() -> int:
    """Print the counts and judge how often the way reaches a cause."""
    found = list(ways(real_runs(PATTERN)))
    if not found:
        print("no recorded trials here: not measured")
        return report("cause_walks", [])
    ends = Counter(walk.end for _, walk in found)
    basis = Counter(hop.basis for _, walk in found for hop in walk.hops)
    hops = sorted(len(walk.hops) for _, walk in found)
    at_departure = sum(
        comparison.departure is not None and walk.at.step == comparison.departure.at.step for comparison, walk in found
    )
    one_step = sum(len(walk.hops) <= 1 and walk.end is WalkEnd.ANSWER for _, walk in found)
    print(f"{len(found)} pairs with another final answer; steps back: median {hops[len(hops) // 2]}, most {hops[-1]}")
    for end, count in ends.most_common():
        print(f"  {count:4} end: {end}")
    for name, count in basis.most_common():
        print(f"  {count:4} steps of the way by: {name}")
    share = ends[WalkEnd.ANSWER] / len(found)
    figures = [
        Figure("ways that end at an equal request answered differently", round(share, 3), 0.9, "of pairs",
               at_most=False, detail=f"looking one step back: {one_step / len(found):.3f}"),
        Figure("ways that end where the runs part", round(at_departure / len(found), 3), 0.9, "of pairs",
               at_most=False),
        Figure("steps of the way that rest on digests", round(basis[HopBasis.DIGEST] / max(1, basis.total()), 3), 0.9,
               "of steps", at_most=False),
    ]  # fmt: skip
    return report("cause_walks", figures)


if __name__ == "__main__":
    raise SystemExit(main())
