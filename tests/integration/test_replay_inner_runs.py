"""Agents that call agents replay exactly: each inner run is answered from its own recording, and judged."""

from __future__ import annotations

import random

import pytest

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import set_run_factory
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay.launch import entry_command
from otel_agent_replay.replay.runs import ReplayRuns
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.agents import Script, assert_same

TEAM = """
import asyncio, random, time
from concurrent.futures import ThreadPoolExecutor
import otel_agent_replay as replay

@replay.tool(side_effect="read")
def price(item):
    return {"item": item, "cents": random.randrange(10**6)}

@replay.tool(side_effect="read")
async def look(item):
    await asyncio.sleep(random.random() / 50)
    return random.randrange(10**6)

@replay.agent
def clerk(item):
    return [price(item)["cents"], random.random()]

@replay.agent
def buyer(item):
    return [clerk(item), clerk(item + "!")]

@replay.agent
async def scout(item):
    return [await look(item), random.random()]

@replay.agent
def team(item):
    found = [clerk(item), clerk(item), buyer(item)]
    with replay.step("later"):
        found.append(clerk(item))
    with ThreadPoolExecutor(3) as pool:
        found += pool.map(clerk, [item] * 4 + ["other"])
    return [*found, asyncio.run(race(item))]

async def race(item):
    found = await asyncio.gather(scout(item), scout(item), scout("other"))
    for nearest in asyncio.as_completed([scout(item), scout(item), scout("a"), scout("b")]):
        found.append(await nearest)
    return found

if __name__ == "__main__":
    print(team("lamp"))
"""


def test_an_agent_of_agents_replays_by_its_entry_and_by_its_command(tmp_path):
    """In sequence, nested, pooled, gathered and racing, with equal inputs: every inner run gets its own recording."""
    script = Script(tmp_path, TEAM, name="team.py")
    team = script.record()["team"]
    by_command = script.replay(team)
    by_entry = script.replay(team, command=entry_command("team:team"))
    for verdict in (by_entry, by_command):
        assert_same(verdict)
        assert verdict.output_same is True
        assert sorted(one.agent for one in verdict.others) == ["buyer"] + ["clerk"] * 10 + ["scout"] * 7
        assert verdict.order_not_imposed == ()


# --- in this process ---


class Desk:
    """What the agents below do; a test changes it between recording and replay."""

    def __init__(self):
        self.asked = ["lamp", "chair"]
        self.swallows = False
        self.price = 5
        self.called = 0


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def agents(desk):
    """An agent that calls another one, directly and through a tool."""

    @replay.tool(side_effect="read")
    def price(item):
        desk.called += 1
        return desk.price

    @replay.agent(name="clerk")
    def clerk(item):
        return [price(item), random.random(), desk.price]

    @replay.tool(side_effect="read")
    def asks_clerk(item):
        return clerk(item)[0]

    @replay.agent(name="team")
    def team(item):
        for one in desk.asked:
            try:
                clerk(one)
            except ReplayInterrupt:
                if not desk.swallows:
                    raise
        return asks_clerk(item)

    return team


@pytest.fixture
def runtime(tmp_path):
    yield replay.configure(lake=tmp_path / "lake", seal="off")
    replay.shutdown()


def recorded(runtime, agent):
    """Record the agent; return the runs of this process in the order they began, and the agent's own."""
    agent("x")
    runtime.journal.rotate()
    seal(runtime.settings.lake)
    lake = Lake(runtime.settings.lake)
    runs = [lake.load(one.run.run_id) for one in reversed(lake.runs())]
    return runs, next(one for one in runs if one.run.agent == "team")


def replayed(runtime, recordings, target, agent):
    """Replay the agent in this process; return the verdict."""
    runs = ReplayRuns(
        recordings, target=target.run.run_id, opener=runtime.recording.open, closer=runtime.recording.close,
        input_of=runtime.recording.input_of,
    )  # fmt: skip
    set_run_factory(runs)
    try:
        agent("x")
    except ReplayInterrupt:
        pass
    finally:
        set_run_factory(runtime.recording)
    return runs.verdict()


def test_an_agent_below_a_tool_is_answered_with_the_tool(runtime, desk, agents):
    """The tool that called an agent is answered from the tape, and nobody misses the run that it began."""
    recordings, team = recorded(runtime, agents)
    called = desk.called
    verdict = replayed(runtime, recordings, team, agents)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert [(one.agent, one.status) for one in verdict.others] == [("clerk", VerdictStatus.SAME)] * 2
    assert desk.called == called


def test_an_inner_run_with_another_input_is_a_departure_that_names_it(runtime, desk, agents):
    """Calling an agent with something else than on record departs, like a tool's other argument."""
    recordings, team = recorded(runtime, agents)
    desk.asked = ["lamp", "sofa"]
    verdict = replayed(runtime, recordings, team, agents)
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.departure.path == ("run:team#0", "run:clerk")
    assert verdict.departure.differences == ("item: 'chair' -> 'sofa'",)


def test_inner_runs_in_another_order_are_told_by_their_input(runtime, desk, agents):
    """Two calls of one agent that change places each get their own recording."""
    recordings, team = recorded(runtime, agents)
    desk.asked.reverse()
    verdict = replayed(runtime, recordings, team, agents)
    assert [one.status for one in verdict.others] == [VerdictStatus.SAME] * 2
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


@pytest.mark.parametrize(
    ("asked", "message"),
    [(["lamp"], "was never begun"), (["lamp", "chair", "chair"], "a run of agent 'clerk' that is not on the tape")],
)
def test_an_inner_run_less_or_more_is_a_departure(runtime, desk, agents, asked, message):
    """An agent that is no more called, or once more than on record, is a departure of the run that calls it."""
    recordings, team = recorded(runtime, agents)
    desk.asked = asked
    verdict = replayed(runtime, recordings, team, agents)
    assert verdict.status is VerdictStatus.DEPARTED
    assert message in verdict.departure.message


def test_a_departure_inside_an_inner_run_is_its_callers_whatever_that_catches(runtime, desk, agents):
    """An agent that swallows what stopped the agent that it called has departed all the same."""
    recordings, team = recorded(runtime, agents)
    desk.asked = ["lamp", "chair", "sofa"]
    desk.swallows = True
    verdict = replayed(runtime, recordings, team, agents)
    assert verdict.status is VerdictStatus.DEPARTED
    assert "not on the tape" in verdict.departure.message


def test_an_inner_run_with_another_outcome_is_told_of_its_caller(runtime, desk, agents):
    """The caller asked the same and ended the same, but an agent that it called answered otherwise: that departs."""
    recordings, team = recorded(runtime, agents)
    desk.price = 6
    verdict = replayed(runtime, recordings, team, agents)
    assert verdict.output_same is True
    assert verdict.status is VerdictStatus.DEPARTED
    assert "of agent 'clerk', which its code begins: departed" in verdict.reason
    assert verdict.departure.differences == ("[2]: 5 -> 6",)
