"""A run that died is finished: what was done is not done again, whatever was in flight, whoever works on it."""

from __future__ import annotations

import pytest

from otel_agent_replay.compare import Verdict, compare
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.model import Kind, RunStatus
from otel_agent_replay.replay.continued_report import ContinuedStatus
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.resume_world import Theatre, steps
from tests.support.shares import shared

# --- a crash at any point of any step ---


POINTS = ("before", "during", "after")


@pytest.mark.parametrize(
    ("point", "share"),
    shared([*((point, slice(place, None, 3)) for place, point in enumerate(POINTS)),
            *((point, slice(None)) for point in POINTS)],
           *((point, slice(place, None, 3)) for place, point in enumerate(POINTS))),
    ids=lambda given: given if isinstance(given, str) else f"{given.start}:{given.step}",
)  # fmt: skip
def test_killed_at_any_step_it_finishes_as_if_nothing_had_happened(stage, world, tmp_path, point, share):
    """Killed at any step, each effect happens once, no completed model call is asked again, and the run is whole."""
    whole = Theatre(stage, world, tmp_path / "whole")
    whole.record("desk", "o-0")
    wanted = steps(whole.run())
    models = {node.step for node in whole.run().nodes if node.kind is Kind.MODEL}
    for step, *_ in wanted[share]:
        order = f"o-{step}"
        theatre = Theatre(stage, world, tmp_path / order)
        world.asked.clear()
        theatre.record("desk", order, kill_at=f"{point}:{step}")
        assert theatre.run().run.attempt == 1
        by_entry = step % 2 == 1
        theatre.resume("desk", theatre.run().run, order, entry=by_entry)
        assert theatre.report.status is ContinuedStatus.FINISHED

        refunds = f'/refunds {{"order":"{order}","cents":4900}}'
        assert world.done[refunds] == 1, (point, step)
        assert len(world.keys[refunds]) == 1
        in_flight = point == "during" and step in models
        assert sorted(world.asked.values()) == ([1, 1, 2] if in_flight else [1, 1, 1]), (point, step)

        resumed = theatre.run()
        assert (resumed.run.status, resumed.run.attempt) == (RunStatus.OK, 2)
        assert [one.number for one in resumed.attempts] == [1, 2]
        expected = [(number, path.replace("o-0", order)) for number, path, _ in wanted]
        assert [(number, path) for number, path, _ in steps(resumed)] == expected
        (effect,) = [one for one in theatre.book().effects(resumed.run.run_id) if one.tool == "refund"]
        assert effect.status == "done"
        if point != "during" and step % 3:
            continue
        verdict = theatre.replay("desk", resumed.run, order)
        assert verdict.status is VerdictStatus.SAME, verdict.to_json()
        assert verify(Lake(theatre.lake).load(resumed.run.run_id)) == []
        resumed = load_run(theatre.lake, resumed.run.run_id.hex())
        again = load_run(theatre.lake, verdict.replay_run_id)
        assert compare(resumed, again).verdict is Verdict.IDENTICAL
    mails = world.done['/mails {"to":"ana","text":"refunded 4900"}']
    assert mails == len(wanted[share]) + 1
