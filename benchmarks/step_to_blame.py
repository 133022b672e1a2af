"""How near the report comes to the step that broke a run, as people marked it.

24 failed runs of teams of agents (Who&When), each with the number of the step to blame. There is no passing run of the same
task, so a run is compared with the same run before its first step (same input, nothing done) and, for a departure, with
the most similar other run of its kind. Looked at are the step where a report of this tool would send a reader:

    departure       the first departure from the most similar other run, after the input
    top risk        the step of the highest rank (no improvement) of all that was done
    source          where the way back from the final answer ends: the step that what it says came from

beside the first, the last and a random step. `at or before` alone favours early steps (the first is always), so how often
it is the very step, within one, and how many steps lie between stand beside. Counts only: the texts are not ours to show.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from measure import Figure, report
from real_runs import RealRun, real_runs

from otel_agent_replay.compare import Added, compare, explain, final_answer, rank_changes
from otel_agent_replay.model import Kind, Outcome, OutcomeStatus, RecordedRun

PATTERN = "who-and-when/{}/*.json"
KINDS = ("Algorithm-Generated", "Hand-Crafted")
DRAWS = 2000

Guess = Callable[[RealRun, Sequence[RealRun]], "int | None"]


def before_all(run: RecordedRun) -> RecordedRun:
    """Return the run as it was called, before its first step."""
    root = run.spans[0]
    if root.node is None:
        raise AssertionError("a run begins with its root")
    empty = replace(root, node=replace(root.node, outcome=Outcome(OutcomeStatus.OK)))
    return replace(run, spans=(empty,))


def departure(item: RealRun, others: Sequence[RealRun]) -> int | None:
    """See the module."""
    compared = [compare(other.run, item.run) for other in others if other is not item]
    nearest = max(compared, key=lambda one: one.trust.similarity)
    steps = [
        end.step
        for change in nearest.changes
        for end in [getattr(change, "b", None)]
        if end is not None and end.step is not None
    ]
    return min(steps, default=None)


def top_risk(item: RealRun, others: Sequence[RealRun]) -> int | None:
    """See the module."""
    del others
    empty = before_all(item.run)
    ranked = rank_changes(compare(empty, item.run), empty, item.run)
    return next(
        (one.change.b.step for one in ranked if isinstance(one.change, Added) and one.change.b.step is not None), None
    )


def source(item: RealRun, others: Sequence[RealRun]) -> int | None:
    """See the module."""
    del others
    empty = before_all(item.run)
    comparison = compare(empty, item.run)
    walk = final_answer(comparison, explain(empty, item.run, comparison))
    return None if walk is None else walk.at.step


def steps_of(item: RealRun) -> int:
    """Return how many steps a run has."""
    return max(node.step or 0 for node in item.run.nodes)


def first(item: RealRun, others: Sequence[RealRun]) -> int:
    """The first step that is no user's."""
    del others
    return min(node.step for node in item.run.nodes if node.step is not None and node.kind is not Kind.INPUT)


def last(item: RealRun, others: Sequence[RealRun]) -> int:
    """The last step."""
    del others
    return steps_of(item)


GUESSES: Mapping[str, Guess] = {
    "departure": departure,
    "top risk": top_risk,
    "source of the final answer": source,
    "first step": first,
    "last step": last,
}


def measured(guesses: Sequence[tuple[float, int]]) -> tuple[float, float, float, float]:
    """Return the shares at or before, exact, within one, and the mean distance, of (guess, marked)."""
    count = len(guesses)
    return (
        sum(guess <= marked for guess, marked in guesses) / count,
        sum(guess == marked for guess, marked in guesses) / count,
        sum(abs(guess - marked) <= 1 for guess, marked in guesses) / count,
        sum(abs(guess - marked) for guess, marked in guesses) / count,
    )


def main() -> int:
    """Print the table and judge whether ours names the very step more often than a random one."""
    groups = [real_runs(PATTERN.format(kind)) for kind in KINDS]
    if not any(groups):
        print("no marked runs here: not measured")
        return report("step_to_blame", [])
    figures = []
    chance = []
    draw = random.Random(7)
    for group in groups:
        for item in group:
            marked = int(item.labels["mistake_step"])
            chance += [(draw.randint(1, steps_of(item)), marked) for _ in range(DRAWS)]
    expected = measured(chance)
    print(f"{sum(map(len, groups))} runs, {sum(steps_of(item) for group in groups for item in group)} steps")
    print(f"{'':28}{'at or before':>14}{'exact':>8}{'within 1':>10}{'steps away':>12}{'no answer':>11}")
    for name, guess in GUESSES.items():
        pairs = [(guess(item, group), int(item.labels["mistake_step"])) for group in groups for item in group]
        told = [(step, marked) for step, marked in pairs if step is not None]
        before, exact, near, away = measured(told)
        print(f"{name:28}{before:14.2f}{exact:8.2f}{near:10.2f}{away:12.1f}{len(pairs) - len(told):11}")
        if name in ("top risk", "source of the final answer"):
            # what gave no answer counts as not found
            figures.append(
                Figure(
                    f"{name}: the marked step within one",
                    round(near * len(told) / len(pairs), 3),
                    round(expected[2], 3),
                    "of runs",
                    at_most=False,
                    detail="limit: a random step",
                )
            )
    print(f"{'random step':28}{expected[0]:14.2f}{expected[1]:8.2f}{expected[2]:10.2f}{expected[3]:12.1f}{0:11}")
    return report("step_to_blame", figures)


if __name__ == "__main__":
    raise SystemExit(main())
