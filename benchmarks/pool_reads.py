"""How many reads of a re-run need no live system: answered by the run's own tape, then by the pool of all other runs.

Trial against trial of the airline trajectories: each run is what a candidate did, the tape is another trial of the same
task, the pool are the 47 others. An answer that is not what the run itself had read would be a wrong one: there is none.
No timings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from airline import corpus
from measure import Figure, report

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import RecordedRun, SideEffect
from otel_agent_replay.replay.by_arguments import ByArguments
from otel_agent_replay.replay.pool import Found, Pool
from otel_agent_replay.replay.writes import changes_the_world
from otel_agent_replay.testing import builders

TRIALS = 4
NEVER_NS = 1 << 62  # every run of the corpus is over by then
PURE = {"calculate", "think"}
# Percent of reads, and of re-runs with reads whose every one is answered: a first measurement, and what must hold since.
FIRST = {"tape": (69, 50), "tape and pool": (89, 69)}
WANTED = {"tape": (60, 40), "tape and pool": (80, 60)}


def recorded(trajectory: list, number: int) -> RecordedRun:
    """Return a trajectory as a run; results pair with calls by position, since ids repeat."""
    run = builders.run("airline", seed=number)
    for place, message in enumerate(trajectory):
        for index, asked in enumerate(message.get("tool_calls") or []):
            after = trajectory[place + 1 + index : place + 2 + index]
            result = after[0]["content"] if after and after[0]["role"] == "tool" else None
            name = asked["function"]["name"]
            run.tool(name, json.loads(asked["function"]["arguments"]), result, side_effect=effect_of(name))
    return run.build()


def effect_of(name: str) -> SideEffect:
    """Return what a tool of the airline does."""
    if name in PURE:
        return SideEffect.NONE
    if name.startswith(("get_", "search_", "list_")):
        return SideEffect.READ
    return SideEffect.EXTERNAL if name.startswith("transfer_") else SideEffect.WRITE


def answered(run: RecordedRun, tape: ByArguments, pool: Pool) -> Iterator[str]:
    """Yield for each read of a run who answers it: tape, pool, or "" for nobody. Raises for a wrong answer."""
    place = Place.root("airline")
    for node in run.nodes:
        if node.call is None or node.side_effect is SideEffect.NONE:
            continue
        answer = tape.answer(node.call, place)
        if changes_the_world(node.call):
            continue
        outcome, source = (None, "") if answer is None else (answer.outcome, "tape")
        if outcome is None:
            found = pool.find(node.call, NEVER_NS, written=tape.written)
            if isinstance(found, Found):
                outcome, source = found.node.outcome, "pool"
        if outcome is not None and outcome.result.digest != node.outcome.result.digest:
            raise AssertionError(f"{node.name} was answered wrongly by the {source}")
        yield source


def main() -> int:
    """Measure and report; nothing to judge where the trajectories are not there."""
    conversations = corpus()
    if conversations is None:
        print("the airline trajectories are not here: nothing was measured")
        return report("pool_reads", [])
    runs = {(one["task_id"], one["trial"]): recorded(one["traj"], number) for number, one in enumerate(conversations)}
    reruns = []
    for (task, trial), run in runs.items():
        pool = Pool([other for key, other in runs.items() if key != (task, trial)], own_worlds=True)
        reruns += [list(answered(run, ByArguments(runs[task, other]), pool)) for other in set(range(TRIALS)) - {trial}]
    reads = [source for rerun in reruns for source in rerun]
    reading = [rerun for rerun in reruns if rerun]
    figures = []
    for name, sources in (("tape", {"tape"}), ("tape and pool", {"tape", "pool"})):
        of_reads = sum(source in sources for source in reads), len(reads)
        of_runs = sum(set(rerun) <= sources for rerun in reading), len(reading)
        for number, (what, (count, total)) in enumerate(
            (("reads answered", of_reads), ("re-runs whose every read is answered", of_runs))
        ):
            detail = f"({count} of {total}; a first measurement gave {FIRST[name][number]} %)"
            figures.append(
                Figure(
                    f"{what} by {name}", 100 * count / total, WANTED[name][number], "%", at_most=False, detail=detail
                )
            )
    return report("pool_reads", figures)


if __name__ == "__main__":
    raise SystemExit(main())
