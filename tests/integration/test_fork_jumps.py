"""Forks that are entered at a checkpoint: the same fork as by exact replay, with nothing before it executed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import ApprovalRequired, ConfigurationError
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import AnswerSource, Kind
from otel_agent_replay.replay.continued_report import ContinuedReport, ContinuedStatus
from otel_agent_replay.replay.fork import ForkPlan
from otel_agent_replay.replay.runs import ReplayRuns
from tests.support import desk_agents
from tests.support.forking import facts, forked, recorded, runtime, world

__all__ = ["runtime", "world"]  # the fixtures
ROOT = Path(__file__).parent.parent.parent


def at(step, **options):
    return ForkPlan.from_arguments(step, **options, read=str)


@dataclass
class Plan:
    order: str
    cents: list


def hows(report):
    return [str(step.how) for step in report.steps]


def test_a_fork_jumps_from_the_last_checkpoint_and_is_the_same_fork(runtime, world):
    """Forked at every step: entered at the checkpoint before it, it asks and keeps what a fast-forward does."""
    origin = recorded(runtime, desk_agents.enterable)
    for at in range(1, 21):
        seen = []
        for jumps in (True, False):
            asked = len(world.models)
            plan = ForkPlan.from_arguments(at, settings=["model=new"], jumps=jumps, read=str)
            fork, report, error = forked(runtime, origin, plan, desk_agents.enterable)
            assert error is None
            assert (report.status, report.steps_shared) == (ContinuedStatus.FINISHED, at - 1)
            point = (at - 1) // 5 * 5
            if jumps and point:
                assert (report.entered, report.entered_step, report.entered_name) == ("jump", point, "round")
            else:
                assert (report.entered, report.not_jumped == "--no-jump") == ("fast-forward", not jumps)
                point = 0
            told = [str(step.how) for step in report.steps]
            assert told[:point] == ["skipped"] * point
            assert told[point : at - 1] == ["replayed"] * (at - 1 - point)
            assert set(told[at - 1 :]) <= {"live", "replayed"}
            seen.append((world.models[asked:], [facts(node) for node in fork.nodes], told[at - 1 :]))
        assert seen[0] == seen[1]


def test_nothing_before_the_checkpoint_is_executed(runtime, world):
    """The body of the agent does not run, its arguments and the state come from the recording."""
    ran = []

    def again(checkpoint, order):
        ran.append((checkpoint.name, checkpoint.step, checkpoint.state, order))
        checkpoint.state.cents.append(3)
        return desk_agents.find(order)

    @replay.agent(name="desk", enter=again)
    def desk(order):
        ran.append("body")
        desk_agents.find(order)
        replay.checkpoint("planned", Plan(order, [1]), resumable=True)
        return desk_agents.find(order)

    origin = recorded(runtime, desk)
    for _ in range(2):  # the state is made anew each time
        ran.clear()
        fork, report, error = forked(runtime, origin, at(3), desk)
        assert error is None
        assert ran == [("planned", 2, Plan("17", [1, 3]), "17")]
        assert hows(report) == ["skipped", "skipped", "replayed"]
        assert [node.step for node in fork.nodes if node.step] == [1, 2, 3]
    assert report == ContinuedReport.from_json(report.to_json())


def test_an_entered_fork_replays_exactly_and_can_be_entered_again(runtime, world):
    """What it is, with its origin's part, is a run like any other: offline from its beginning, and forked from it."""
    origin = recorded(runtime, desk_agents.enterable)
    fork, _, _ = forked(runtime, origin, at(12, settings=["model=new"]), desk_agents.enterable)
    asked = len(world.models)
    runs = ReplayRuns([fork], target=fork.run.run_id, opener=runtime.recording.open, closer=runtime.recording.close)
    with opening_runs(runs):
        desk_agents.enterable("17")
    assert runs.verdict().exit_code == 0, runs.verdict().to_json()
    again, report, error = forked(runtime, fork, at(17, settings=["model=newest"]), desk_agents.enterable)
    assert error is None
    assert (report.entered_step, report.steps_shared, again.run.origin_run_id) == (15, 16, fork.run.run_id)
    assert len(world.models) == asked


def test_the_command_says_how_it_entered_and_the_comparison_begins_at_the_fork(tmp_path, world, monkeypatch):
    """By the entry and by the recorded command alike; with `--no-jump` it is replayed from its beginning."""
    script = str(ROOT / "tests/support/desk_agents.py")
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "AGENT_REPLAY_LAKE": str(tmp_path / "lake"), "AGENT_REPLAY_SEAL": "off",
    }  # fmt: skip

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert run(script, "enterable").returncode == 0
    seal(tmp_path / "lake")
    run_id = Lake(tmp_path / "lake").runs(limit=1)[0].run.run_id.hex()
    words = ["-m", "otel_agent_replay", "fork", run_id, "--at", "12", "--set", "model=new", "--json"]
    for way in (["--entry", "tests.support.desk_agents:enterable"], ["--", sys.executable, script, "enterable"]):
        done = run(*words, *way)
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads(done.stdout)
        assert (told["entered"], told["entered_step"], told["entered_name"]) == ("jump", 10, "round")
        assert [one["how"] for one in told["steps"]][:11] == ["skipped"] * 10 + ["replayed"]
        assert told["steps"][15] == {
            "step": 16, "kind": "model", "name": "chat", "how": "live", "source": "live",
            "origin_step": None, "request_edited": True,
        }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    compared = CliRunner().invoke(main, ["diff", "--lake", str(tmp_path / "lake"), run_id, told["run_id"]])
    assert "departs from A at step 16" in compared.stdout
    told = json.loads(run(*words, "--no-jump", "--entry", "tests.support.desk_agents:enterable").stdout)
    assert (told["entered"], told["not_jumped"]) == ("fast-forward", "--no-jump")


def never(checkpoint, order):
    raise AssertionError(f"entered at {checkpoint.name}")


def declared_not(order):
    replay.checkpoint("here", {"order": order}, resumable=False)
    return desk_agents.find(order)


def unsafe(order):
    replay.checkpoint("here", {"order": order}, resumable=True, unsafe_reasons=["the basket is locked"])
    return desk_agents.find(order)


def secret(order):
    replay.checkpoint("here", {"password": "hunter2"}, resumable=True)
    return desk_agents.find(order)


def odd(order):
    replay.checkpoint("here", {"lock": threading.Lock()}, resumable=True)
    return desk_agents.find(order)


def pointless(order):
    desk_agents.find(order)
    return desk_agents.find(order)


@replay.tool(side_effect="read")
def looks(order):
    replay.checkpoint("here", {"order": order}, resumable=True)
    return order


def inside_a_tool(order):
    return looks(order), desk_agents.find(order)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (declared_not, "checkpoint 'here' (step 1) is not declared resumable"),
        (unsafe, "checkpoint 'here' (step 1) is not safe to go on from: the basket is locked"),
        (secret, "checkpoint 'here' (step 1) is not safe to go on from: something in the state was masked"),
        (odd, "checkpoint 'here' (step 1) is not safe to go on from: the state could not be kept whole"),
        (pointless, "the run has no checkpoint before step 2"),
        (inside_a_tool, "checkpoint 'here' (step 2) was taken while 'looks' (step 1) was in flight"),
    ],
)
def test_a_checkpoint_that_does_not_qualify_is_not_entered(runtime, world, body, reason):
    """The fork is fast-forwarded by exact replay instead, and the report says why."""
    desk = replay.agent(name="desk", enter=never)(body)
    origin = recorded(runtime, desk)
    last = max(node.step for node in origin.nodes if node.step)
    _, report, error = forked(runtime, origin, at(last), desk)
    assert error is None
    assert (report.entered, report.not_jumped) == ("fast-forward", reason)
    assert hows(report) == ["replayed"] * last


def test_a_state_that_was_not_kept_is_not_entered(runtime, world):
    """At the level `digest` there is a digest of the state and no more."""

    @replay.agent(name="desk", enter=never, capture="digest")
    def desk(order):
        replay.checkpoint("here", {"order": order}, resumable=True)
        return 1

    origin = recorded(runtime, desk)
    _, report, _ = forked(runtime, origin, at(2), desk)
    assert report.not_jumped == "the state of checkpoint 'here' (step 1) was not kept"


def test_a_state_whose_class_is_gone_is_not_entered(runtime, world, monkeypatch):
    """Classes are looked up among the loaded modules only; the reason says which is missing."""
    module = types.ModuleType("agent_of_yesterday")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Plan = kept = dataclass(type("Plan", (), {"__annotations__": {"order": str}, "__module__": module.__name__}))

    @replay.agent(name="desk", enter=never)
    def desk(order):
        replay.checkpoint("here", kept(order), resumable=True)
        return desk_agents.find(order)

    origin = recorded(runtime, desk)
    monkeypatch.delitem(sys.modules, module.__name__)
    _, report, _ = forked(runtime, origin, at(2), desk)
    assert report.not_jumped.startswith("the state of checkpoint 'here' (step 1) cannot be read: ")
    assert "agent_of_yesterday" in report.not_jumped


def test_an_earlier_checkpoint_is_entered_where_the_last_does_not_qualify(runtime, world):
    """The last one that qualifies counts, and what lies between is replayed."""

    def go_on(order):
        replay.checkpoint("second", {}, resumable=False)
        return desk_agents.find(order)

    @replay.agent(name="desk", enter=lambda checkpoint, order: go_on(order))
    def desk(order):
        replay.checkpoint("first", {}, resumable=True)
        return go_on(order)

    origin = recorded(runtime, desk)
    _, report, error = forked(runtime, origin, at(3), desk)
    assert error is None
    assert (report.entered_name, hows(report)) == ("first", ["skipped", "replayed", "replayed"])


def test_an_agent_without_an_entrance_or_with_another_input_is_fast_forwarded(runtime, world):
    """The state of a recorded run is nothing for a run with other arguments."""
    origin = recorded(runtime)
    _, report, _ = forked(runtime, origin, at(7))
    assert report.not_jumped == "agent 'long' does not say how it can be entered (@replay.agent(enter=...))"
    origin = recorded(runtime, desk_agents.enterable)
    _, report, _ = forked(runtime, origin, at(7), desk_agents.enterable, order="18")
    assert report.not_jumped == "it was called with another input than on record"
    assert report.status is ContinuedStatus.DEPARTED


def test_entered_code_that_does_something_else_departs(runtime, world):
    """What lies between the checkpoint and the fork's step is held to the recording; nothing goes live there."""

    @replay.agent(name="desk", enter=lambda checkpoint, order: desk_agents.ask("something else"))
    def desk(order):
        replay.checkpoint("here", {}, resumable=True)
        return desk_agents.ask(order), desk_agents.ask(order)

    origin = recorded(runtime, desk)
    asked = len(world.models)
    _, report, _ = forked(runtime, origin, at(3), desk)
    assert (report.status, report.step) == (ContinuedStatus.DEPARTED, 2)
    assert hows(report) == ["skipped", "not_asked"]
    assert len(world.models) == asked


def test_an_approval_that_was_not_used_up_is_still_good(runtime, world):
    """Approved before the checkpoint, used after it: in the fork once, as it was then."""
    calls = []

    @replay.approval(action="pay")
    def may(order):
        return replay.Approval(granted=True, by="ana")

    @replay.tool(side_effect="write", approval=True, dry_run=lambda order: calls.append("rehearsed"))
    def pay(order):
        calls.append("paid")

    def twice(checkpoint, order):
        pay(order)
        pay(order)

    @replay.agent(name="payer", enter=twice)
    def payer(order):
        may(order)
        may(order)
        pay(order)
        replay.checkpoint("approved", {}, resumable=True)
        pay(order)

    origin = recorded(runtime, payer)
    assert calls == ["paid", "paid"]
    fork, report, error = forked(runtime, origin, at(5), payer)
    assert isinstance(error, ApprovalRequired)
    assert calls == ["paid", "paid"]
    assert [node.source for node in fork.nodes if node.name == "pay"] == [AnswerSource.LIVE, AnswerSource.TAPE]


def test_an_asynchronous_method_is_entered(runtime, world):
    """The checkpoint comes first after `self`, and what is awaited before it was never begun."""

    class Desk:
        def __init__(self):
            self.seen = []

        async def again(self, checkpoint, order):
            self.seen.append(checkpoint.state)
            return await self.rest(order)

        async def rest(self, order):
            return await asyncio.gather(*(asyncio.to_thread(desk_agents.find, order) for _ in range(3)))

        @replay.agent(name="desk", enter=again)
        async def run(self, order):
            await asyncio.gather(*(asyncio.to_thread(desk_agents.find, order) for _ in range(3)))
            replay.checkpoint("half", {"n": 3}, resumable=True)
            return await self.rest(order)

    desk = Desk()
    origin = recorded(runtime, lambda order: asyncio.run(desk.run(order)))
    fork, report, error = forked(runtime, origin, at(8), lambda order: asyncio.run(desk.run(order)))
    assert error is None
    assert desk.seen == [{"n": 3}]
    assert hows(report) == ["skipped"] * 4 + ["replayed"] * 3
    assert [facts(node) for node in fork.nodes if node.step] == [facts(node) for node in origin.nodes if node.step]
    assert report.steps_live == 0


def test_parallel_code_after_the_checkpoint_gets_its_own_answers(runtime, world):
    """Threads of control are numbered on from those before it: equal scopes in several threads keep their places."""

    def work(number):
        with replay.step("part"):
            return desk_agents.ask(f"{number} with {desk_agents.find(str(number))}")

    def crowd(order):
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(work, range(3)))

    @replay.agent(name="crowd", enter=lambda checkpoint, order: crowd(order))
    def agent(order):
        crowd(order)
        replay.checkpoint("half", {}, resumable=True)
        return crowd(order)

    origin = recorded(runtime, agent)
    asked = len(world.models)
    fork, report, error = forked(runtime, origin, at(14), agent)
    assert error is None
    assert hows(report) == ["skipped"] * 7 + ["replayed"] * 6
    assert (report.steps_live, len(world.models)) == (0, asked)
    assert sorted(map(repr, map(facts, fork.nodes))) == sorted(map(repr, map(facts, origin.nodes)))


@pytest.mark.parametrize("way", [{}, {"jumps": False}], ids=["jump", "fast-forward"])
def test_a_scope_that_was_open_at_the_checkpoint_is_entered_again(runtime, world, way):
    """What is new in it lies in that scope, not in another of its name."""

    def rest(order):
        desk_agents.find(order)
        return desk_agents.ask(order)

    def again(checkpoint, order):
        with replay.step("round"):
            return rest(order)

    @replay.agent(name="desk", enter=again)
    def desk(order):
        with replay.step("round"):
            pass
        with replay.step("round"):
            replay.checkpoint("inside", {}, resumable=True)
            return rest(order)

    origin = recorded(runtime, desk)
    fork, report, error = forked(runtime, origin, at(3, **way), desk)
    assert error is None
    assert hows(report)[1:] == ["replayed", "live"]
    model = next(node for node in fork.nodes if node.kind is Kind.MODEL)
    assert model.path[1] == "scope:round#1"


def test_a_fork_before_an_approval_asks_again_when_entered_too(runtime, world):
    """A person is asked anew for what lies beyond the step, whatever was answered then."""
    asked = []

    @replay.approval(action="pay")
    def may(order):
        asked.append(order)
        return True

    @replay.agent(name="desk", enter=lambda checkpoint, order: may(order))
    def desk(order):
        replay.checkpoint("ready", {}, resumable=True)
        return may(order)

    origin = recorded(runtime, desk)
    fork, report, error = forked(runtime, origin, at(2), desk)
    assert error is None
    assert (report.entered, len(asked)) == ("jump", 2)
    assert [(step.how, step.source) for step in report.steps][1] == ("live", "wait")


def test_an_entrance_must_fit_its_agent():
    """One that is not awaited where the agent is, or an agent that yields, is refused where it is declared."""
    with pytest.raises(ConfigurationError, match="must be `async` exactly if"):

        @replay.agent(enter=never)
        async def waits(order): ...

    with pytest.raises(ConfigurationError, match="yields, so that it cannot be entered"):

        @replay.agent(enter=never)
        def yields(order):
            yield order
