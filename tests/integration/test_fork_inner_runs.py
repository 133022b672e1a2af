"""A fork of an agent that calls agents: what they did before its step is given, what they do beyond is theirs."""

from __future__ import annotations

import pytest

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay.continued_runs import ContinuedRuns
from otel_agent_replay.replay.fork import ForkPlan, PreparedFork


class Desk:
    """What the agents do, and what they really did."""

    def __init__(self):
        self.last = "b"
        self.first = "a"
        self.did = []


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def team(desk):
    """An agent that calls another before and after its only step."""

    @replay.tool(side_effect="none")
    def count(item):
        desk.did.append(f"count {item}")
        return len(desk.did)

    @replay.tool(side_effect="write", dry_run=lambda item: f"would pay {item}")
    def pay(item):
        desk.did.append(f"pay {item}")
        return f"paid {item}"

    @replay.agent(name="clerk")
    def clerk(item):
        return [count(item), pay(item)]

    @replay.agent(name="team")
    def team():
        before = clerk(desk.first)
        count("between")
        return [before, clerk(desk.last)]

    return team


@pytest.fixture
def runtime(tmp_path):
    yield replay.configure(lake=tmp_path / "lake", seal="off")
    replay.shutdown()


def forked(runtime, team, desk):
    """Fork the recorded team at its step; return its result, its error and the new runs by agent."""
    team()
    desk.did.clear()
    runtime.journal.rotate()
    seal(runtime.settings.lake)
    lake = Lake(runtime.settings.lake)
    runs = [lake.load(one.run.run_id) for one in reversed(lake.runs())]
    origin = next(one for one in runs if one.run.agent == "team")
    factory = ContinuedRuns(
        runs, target=origin.run.run_id, recording=runtime.recording, redaction=runtime.redaction,
        reload=lambda _: origin, plan=PreparedFork(origin, ForkPlan.from_arguments(1, read=str)),
    )  # fmt: skip
    return factory, runs


def went(runtime, factory, team, known):
    """Let the fork run; return its result and the runs that it made."""
    with opening_runs(factory):
        result = team()
    runtime.journal.rotate()
    seal(runtime.settings.lake)
    lake = Lake(runtime.settings.lake)
    before = {one.run.run_id for one in known}
    return result, [one.run for one in reversed(lake.runs()) if one.run.run_id not in before]


@pytest.mark.parametrize(("last", "paid"), [("b", "paid b"), ("c", "would pay c")])
def test_an_inner_run_beyond_the_step_is_a_run_of_its_own_that_writes_nothing(runtime, team, desk, last, paid):
    """Before the step the recording answers; beyond it reads go live, and a write is the recording's or a dry run."""
    factory, known = forked(runtime, team, desk)
    desk.last = last
    result, made = went(runtime, factory, team, known)
    assert result == [[1, "paid a"], [2, paid]]
    assert desk.did == ["count between", f"count {last}"]
    assert [(run.agent, run.mode, run.replay) for run in made] == [("team", "fork", True), ("clerk", "fork", True)]
    assert factory.report().exit_code == 0


def test_an_inner_run_that_is_not_on_record_before_the_step_stops_the_fork(runtime, team, desk):
    """A fork is exact up to its step: an agent called with something else before it does not run at all."""
    factory, _ = forked(runtime, team, desk)
    desk.first = "z"
    with opening_runs(factory), pytest.raises(ReplayInterrupt, match="'clerk' is not on record before step 1"):
        team()
    assert desk.did == []
