"""Drills kill where they say, in the first attempt and in later ones, and nothing happens twice for it."""

from __future__ import annotations

import pytest

from otel_agent_replay.model import RunStatus

# What `writes refund` does: 1 a model call, 2 the tool, 3 its POST, 4 a model call.
FIRST, TOOL, POST, LAST = 1, 2, 3, 4


def steps(theatre):
    return {node.step for node in theatre.run().nodes if node.step is not None}


def known_effects(theatre):
    return [(effect.tool, effect.status) for effect in theatre.book().effects(theatre.run().run.run_id)]


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize("step", [FIRST, TOOL, POST, LAST])
def test_before_a_step_nothing_of_it_is_known(theatre, world, step, attempt):
    """Killed before a step, neither the recording nor the ledger nor the world has it, whichever attempt it is."""
    if attempt == 2:
        theatre.record("writes", "refund", "x", kill_at="before:1")
        theatre.resume("writes", theatre.run().run, "refund", "x", kill_at=f"before:{step}")
    else:
        theatre.record("writes", "refund", "x", kill_at=f"before:{step}")
    assert steps(theatre) == set(range(1, step))
    assert known_effects(theatre) == ([] if step <= TOOL else [("refund", "intended" if step == POST else "done")])
    assert sum(world.asked.values()) == (step > FIRST)
    assert sum(world.called.values()) == (step > POST)
    theatre.resume("writes", theatre.run().run, "refund", "x")
    assert theatre.run().run.status is RunStatus.OK
    assert set(world.called.values()) == set(world.asked.values()) == {1}


@pytest.mark.parametrize("point", ["before", "during", "after"])
@pytest.mark.parametrize("step", [FIRST, TOOL, POST, LAST])
def test_a_later_attempt_dies_also_at_a_step_that_is_on_record(theatre, world, step, point):
    """A drill of a resumed attempt fires at each point of each step, be it on the tape, in flight or new."""
    theatre.record("writes", "refund", "x", kill_at="during:3")
    theatre.resume("writes", theatre.run().run, "refund", "x", kill_at=f"{point}:{step}")
    theatre.resume("writes", theatre.run().run, "refund", "x")
    run = theatre.run().run
    assert (run.status, run.attempt) == (RunStatus.OK, 3)
    assert set(world.done.values()) == {1}
    assert [len(keys) for keys in world.keys.values()] == [1]
    assert world.asked["x first"] == 1
