"""Reads of real trajectories (tau-bench, airline) answered by another trial's tape, then by the pool of all others."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import RecordedRun, SideEffect
from otel_agent_replay.replay.by_arguments import ByArguments
from otel_agent_replay.replay.pool import Found, Pool
from otel_agent_replay.replay.writes import changes_the_world
from otel_agent_replay.testing import builders
from tests.support.recordings import data_folder

pytestmark = pytest.mark.real
TRIALS = 4
EFFECTS = {"calculate": SideEffect.NONE, "think": SideEffect.NONE, "transfer_to_human_agents": SideEffect.EXTERNAL}


def effect_of(name: str) -> SideEffect:
    reads = name.startswith(("get_", "search_", "list_"))
    return EFFECTS.get(name, SideEffect.READ if reads else SideEffect.WRITE)


def recorded(trajectory, seed: int) -> RecordedRun:
    """Results pair with calls by position: ids repeat within a trajectory."""
    run = builders.run("airline", seed=seed)
    for place, message in enumerate(trajectory):
        for number, asked in enumerate(message.get("tool_calls") or []):
            name, after = asked["function"]["name"], trajectory[place + 1 + number : place + 2 + number]
            result = after[0]["content"] if after and after[0]["role"] == "tool" else None
            run.tool(name, json.loads(asked["function"]["arguments"]), result, side_effect=effect_of(name))
    return run.build()


def test_most_reads_are_answered_and_none_wrongly():
    """Tape and pool answer more than four reads of five, each with exactly what the live tool had said."""
    folder = data_folder()
    file = None if folder is None else folder / "tau-bench" / "gpt-4o-airline.tasks0-11.4trials.json"
    if file is None or not file.exists():
        pytest.skip("the trajectories are not here")
    records = json.loads(file.read_text(encoding="utf-8"))
    runs = {(one["task_id"], one["trial"]): recorded(one["traj"], number) for number, one in enumerate(records)}
    place, reads, by_tape, by_pool = Place.root("airline"), 0, 0, 0
    for (task, trial), run in runs.items():
        pool = Pool([other for key, other in runs.items() if key != (task, trial)], own_worlds=True)
        for other in set(range(TRIALS)) - {trial}:
            tape = ByArguments(runs[task, other])
            for node in run.nodes:
                if node.call is None or node.side_effect is SideEffect.NONE:
                    continue
                answer = tape.answer(node.call, place)
                if changes_the_world(node.call):
                    continue
                reads += 1
                outcome = None if answer is None else answer.outcome
                by_tape += outcome is not None
                if outcome is None:
                    found = pool.find(node.call, 2 * builders._FIRST_NS, written=tape.written)
                    outcome = found.node.outcome if isinstance(found, Found) else None
                    by_pool += outcome is not None
                assert outcome is None or outcome.result.digest == node.outcome.result.digest
    assert reads == 528
    assert by_tape / reads > 0.6
    assert (by_tape + by_pool) / reads > 0.8
