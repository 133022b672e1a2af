"""Forks: exact to a step, one thing changed, regression from there; the origin is never touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import CannotJudge, ConfigurationError, CrossingRefused
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import AnswerSource, Kind
from otel_agent_replay.replay.fork import ForkPlan, PreparedFork
from otel_agent_replay.replay.runs import ReplayRuns
from tests.support import desk_agents
from tests.support.forking import contents, facts, forked, recorded, runtime, world

__all__ = ["runtime", "world"]  # the fixtures

ROOT = Path(__file__).parent.parent.parent


def test_forking_at_every_step_of_a_twenty_step_run_reproduces_the_prefix_exactly(runtime, world):
    """For each step: what lies before it is the origin's, byte for byte; the origin's files are unchanged."""
    origin = recorded(runtime)
    steps = [node for node in origin.nodes if node.step is not None]
    assert len(steps) == 20
    before = contents(runtime.settings.lake)
    for at in range(1, 21):
        asked = len(world.models)
        fork, report, error = forked(runtime, origin, ForkPlan.from_arguments(at, settings=["model=new"], read=str))
        assert error is None
        assert (report.steps_shared, report.exit_code) == (at - 1, 0)
        prefix = [facts(node) for node in fork.nodes if node.step is not None and node.step < at]
        assert prefix == [facts(node) for node in steps if node.step < at]
        late = [node.step for node in steps if node.kind is Kind.MODEL and node.step >= at]
        assert [body["model"] for body in world.models[asked:]] == ["new"] * len(late)
        assert len([node for node in fork.nodes if node.step is not None]) == 20
    assert contents(runtime.settings.lake) == before
    runtime.journal.rotate()
    seal(runtime.settings.lake)
    after = contents(runtime.settings.lake)
    assert {path: after[path] for path in before} == before


def test_a_fork_shares_its_prefix_and_copies_nothing(runtime, world):
    """The lake has of a fork only what it did itself; it loads whole, linked to its origin."""
    origin = recorded(runtime)
    fork, _, _ = forked(runtime, origin, ForkPlan.from_arguments(16, settings=["model=new"], read=str))
    runtime.journal.rotate()
    seal(runtime.settings.lake)
    lake = Lake(runtime.settings.lake)
    own = lake.load(fork.run.run_id, whole=False)
    assert {node.step for node in own.nodes if node.step is not None} == set(range(16, 21))
    whole = lake.load(fork.run.run_id)
    assert [node.step for node in whole.nodes if node.step is not None] == list(range(1, 21))
    assert (whole.run.origin_run_id, whole.run.fork_step, whole.run.mode) == (origin.run.run_id, 16, "fork")
    assert whole.run.replay
    told = CliRunner().invoke(
        main, ["diff", "--lake", str(runtime.settings.lake), origin.run.run_id.hex(), fork.run.run_id.hex()]
    )
    assert told.exit_code == 1
    assert "departs from A at step 16" in told.output


def test_the_view_lineage_shows_a_fork_whole_without_a_copy(runtime, world):
    """Joined by whose rows they are, a fork's own and its origins' make up the whole run, also of a fork of a fork."""
    origin = recorded(runtime)
    fork, _, _ = forked(runtime, origin, ForkPlan.from_arguments(16, settings=["model=new"], read=str))
    again, _, _ = forked(runtime, fork, ForkPlan.from_arguments(18, settings=["model=newer"], read=str))
    runtime.journal.rotate()
    seal(runtime.settings.lake)
    with connect(runtime.settings.lake) as sql:

        def steps(run, view):
            return sql.execute(
                f"""
                SELECT step, recorded_in FROM lineage
                JOIN {view} AS told ON told.run_id = recorded_in AND (before_step IS NULL OR step < before_step)
                WHERE lineage.run_id = ? ORDER BY step
                """,
                [run.run.run_id.hex()],
            ).fetchall()

        ids = [run.run.run_id.hex() for run in (origin, fork, again)]
        assert steps(origin, "steps") == [(step, ids[0]) for step in range(1, 21)]
        assert steps(again, "steps") == [(step, ids[(step >= 16) + (step >= 18)]) for step in range(1, 21)]
        assert steps(again, "checkpoints") == [(5, ids[0]), (10, ids[0]), (15, ids[0]), (20, ids[2])]


def test_a_tools_result_is_edited_and_what_follows_is_live(runtime, world):
    """With another result at step 2 the later calls see it; the edited step says where its answer came from."""
    origin = recorded(runtime)
    plan = ForkPlan.from_arguments(2, results=['2={"order": "x", "cents": ""}'], read=str)
    fork, report, error = forked(runtime, origin, plan)
    assert error is None
    assert report.changes == ("result of step 2: set",)
    steps = {node.step: node for node in fork.nodes if node.step is not None}
    assert (steps[1].source, steps[2].source) == (AnswerSource.LIVE, AnswerSource.EDITED)
    assert fork.payload(steps[3].outcome.result.digest) == b'"wait"'
    assert steps[2].origin_step == 2


@replay.tool(side_effect="write", dry_run=lambda order, number: "rehearsed")
def note(order, number):
    return f"noted {number}"


def values(fork, name):
    """Return what a tool said in a run, with who answered."""
    return [
        (json.loads(fork.payload(node.outcome.result.digest)), str(node.source))
        for node in fork.nodes
        if node.name == name
    ]


def test_a_read_whose_result_was_edited_says_the_same_again(runtime, world):
    """Asked again with the same arguments it is edited too, until something is written; another read is not."""
    lost = {"order": "17", "cents": 0}

    def again(order):
        return [desk_agents.find(order), desk_agents.find("18"), desk_agents.find(order), note(order, 2)]

    @replay.agent(name="shop")
    def shop(order):
        seen = desk_agents.find(order)
        desk_agents.find("18")
        if seen["cents"]:
            return [desk_agents.find(order), note(order, 1), desk_agents.find(order)]
        return [desk_agents.find("18"), *again(order), note(order, 1), desk_agents.find(order)]

    origin = recorded(runtime, shop)
    plan = ForkPlan.from_arguments(1, results=[f"1={json.dumps(lost)}"], read=str)
    fork, report, error = forked(runtime, origin, plan, shop)
    assert error is None
    found = {"order": "17", "cents": 100}
    other = ({"order": "18", "cents": 100}, "tape")
    assert values(fork, "find") == [
        (lost, "edited"), other, other, (lost, "edited"), other, (lost, "edited"), (found, "live"),
    ]  # fmt: skip
    assert len({node.path for node in fork.nodes}) == len(fork.nodes)


def test_the_same_call_before_the_edited_one_keeps_its_answer(runtime, world):
    """Of equal calls at one place the edited step is the one with its number, shared or not."""

    @replay.agent(name="shop")
    def shop(order):
        return [desk_agents.find(order) for _ in range(4)]

    origin = recorded(runtime, shop)
    for at, edited in ((3, [3]), (2, [3]), (2, [2, 4])):
        plan = ForkPlan.from_arguments(at, results=[f'{step}={{"edit": {step}}}' for step in edited], read=str)
        fork, report, error = forked(runtime, origin, plan, shop)
        assert error is None
        first = edited[0]
        said = [value.get("edit") for value, _ in values(fork, "find")]
        expected = [None] * (first - 1) + [max(step for step in edited if step <= number) for number in range(first, 5)]
        assert said == expected
        assert [node.step for node in fork.nodes if node.step] == [1, 2, 3, 4]
        assert len({node.path for node in fork.nodes}) == len(fork.nodes)


def test_an_edited_write_counts_as_made_and_is_not_given_again(runtime, world):
    """After it come the reads of after it, and the same write once more is another one."""

    @replay.agent(name="shop")
    def shop(order):
        seen = [desk_agents.find(order), note(order, 1), desk_agents.find(order)]
        return seen if seen[1] == "noted 1" else [*seen, note(order, 1)]

    origin = recorded(runtime, shop)
    fork, _, error = forked(runtime, origin, ForkPlan.from_arguments(2, results=['2="no ink"'], read=str), shop)
    assert error is None
    assert values(fork, "note") == [("no ink", "edited"), ("rehearsed", "dry_run")]
    assert [source for _, source in values(fork, "find")] == ["live", "tape"]


def test_time_passes_in_a_fork_from_where_it_leaves_its_recording(runtime, world, monkeypatch):
    """The clock goes on while the model is asked, from the recorded day, though nobody reads it before.

    What the recording read at the same place is given again, unless this run has seen a later time already.
    """
    from otel_agent_replay.replay import virtual_clock

    passed = [0]
    monkeypatch.setattr(virtual_clock, "_monotonic_ns", lambda: passed[0])

    @replay.agent(name="slow")
    def slow(order):
        desk_agents.ask(order)
        return time.time_ns()

    @replay.agent(name="slow")
    def looks_before(order):
        desk_agents.ask(order)
        return [time.monotonic(), time.time_ns()]

    origin = recorded(runtime, slow)
    (then,) = [read for node in origin.nodes for read in node.reads if read.name == "time.time_ns"]
    began_ns = max(item.span.start_ns for item in origin.spans if item.node.kind is Kind.RUN)
    answer = world.model

    def later(request):
        passed[0] += 3600 * 10**9
        return answer(request)

    world.model = later
    plan = ForkPlan.from_arguments(1, settings=["model=new"], read=str)
    fork, _, error = forked(runtime, origin, plan, slow)
    assert error is None
    assert [read.value for node in fork.nodes for read in node.reads if read.name == "time.time_ns"] == [then.value]
    fork, _, error = forked(runtime, origin, plan, looks_before)
    assert error is None
    (read,) = [read for node in fork.nodes for read in node.reads if read.name == "time.time_ns"]
    assert 0 <= read.value - began_ns - 3600 * 10**9 < 60 * 10**9


def test_the_prompt_and_a_message_are_changed_on_the_way_out(runtime, world):
    """From the step on the model is asked with the new prompt, and with the message in that conversation."""
    origin = recorded(runtime)
    plan = ForkPlan.from_arguments(6, settings=["prompt=Be brief."], message="And hurry.", read=str)
    asked = len(world.models)
    fork, _, error = forked(runtime, origin, plan)
    assert error is None
    first = world.models[asked]["messages"]
    assert first[0] == {"role": "system", "content": "Be brief."}
    assert first[-1]["content"] == "And hurry."
    kept = next(node for node in fork.nodes if node.step == 6)
    assert json.loads(fork.payload(kept.call.request.digest))["messages"] == first


def test_reads_come_from_the_origin_by_arguments_and_writes_never_happen_again(runtime, world):
    """Beyond the fork a read with the same arguments is the recording's; a write with others is refused."""
    origin = recorded(runtime)
    fork, _, error = forked(runtime, origin, ForkPlan.from_arguments(1, settings=["model=new"], read=str))
    assert error is None
    assert {node.source for node in fork.nodes if node.name == "find"} == {AnswerSource.TAPE}

    @replay.agent(name="payer")
    def payer(order):
        return desk_agents.refund(order, desk_agents.count(desk_agents.ask(order)))

    origin = recorded(runtime, payer)
    assert len(world.writes) == 1
    same, _, error = forked(runtime, origin, ForkPlan.from_arguments(1, read=str), payer)
    assert error is None
    assert next(node.source for node in same.nodes if node.name == "refund") is AnswerSource.TAPE
    other, report, error = forked(
        runtime, origin, ForkPlan.from_arguments(1, settings=["model=much-newer"], read=str), payer
    )
    assert isinstance(error, CrossingRefused)
    assert (report.exit_code, report.code) == (1, "refused")
    assert len(world.writes) == 1


def test_a_dry_run_takes_the_place_of_a_write_that_is_not_on_the_tape(runtime, world):
    """A tool that declares a rehearsal is rehearsed in a fork, and the step says so."""
    rehearsed = []

    @replay.tool(side_effect="write", dry_run=lambda order, cents: rehearsed.append(cents) or {"paid": "would"})
    def pay(order, cents):
        return desk_agents.post(os.environ["PAY_URL"], "/refunds", {"cents": cents})

    @replay.agent(name="payer")
    def payer(order):
        return pay(order, desk_agents.count(desk_agents.ask(order)))

    origin = recorded(runtime, payer)
    fork, _, error = forked(runtime, origin, ForkPlan.from_arguments(1, settings=["model=longer"], read=str), payer)
    assert error is None
    assert len(rehearsed) == len(world.writes) == 1
    assert next(node.source for node in fork.nodes if node.name == "pay") is AnswerSource.DRY_RUN


def test_a_fork_before_an_approval_asks_again(runtime, world):
    """An approval before the fork's step is shared, one after it is asked anew, whatever was answered then."""
    asked = []

    @replay.approval(action="pay")
    def may(order):
        asked.append(order)
        return replay.Approval(granted=True, by="ana")

    @replay.tool(side_effect="write", approval=True, dry_run=lambda order: "rehearsed")
    def pay(order):
        return desk_agents.post(os.environ["PAY_URL"], "/refunds", {"order": order})["paid"]

    @replay.agent(name="payer")
    def payer(order):
        desk_agents.ask(order)
        may(order)
        return pay(order)

    origin = recorded(runtime, payer)
    assert len(asked) == 1
    forked(runtime, origin, ForkPlan.from_arguments(3, read=str), payer)
    assert len(asked) == 1
    fork, _, error = forked(runtime, origin, ForkPlan.from_arguments(2, read=str), payer)
    assert error is None
    assert len(asked) == 2
    assert next(node.source for node in fork.nodes if node.kind is Kind.APPROVAL) is AnswerSource.WAIT
    assert len(world.writes) == 1


def test_no_replay_spends_an_approval(tmp_path, world):
    """What a person granted and no call used yet lies in the ledger as it did, after a replay and after forks."""
    asked, paid, fails = [], [], [True]

    @replay.approval(action="pay")
    def may(order):
        asked.append(order)
        return replay.Approval(granted=True, by="ana")

    @replay.tool(side_effect="write", approval=True, dry_run=lambda order: "rehearsed")
    def pay(order):
        paid.append(order)

    @replay.agent(name="payer")
    def payer(order):
        may(order)
        if fails:
            raise RuntimeError("not now")
        return pay(order)

    runtime = replay.configure(lake=tmp_path / "lake", seal="off", ledger="file")
    try:
        with pytest.raises(RuntimeError, match="not now"):
            payer("17")
        runtime.journal.rotate()
        seal(tmp_path / "lake")
        lake = Lake(tmp_path / "lake")
        origin = lake.load(lake.runs(limit=1)[0].run.run_id)
        (granted,) = runtime.ledger().approvals()
        assert granted.status == "granted"
        runs = ReplayRuns(
            [origin], target=origin.run.run_id, opener=runtime.recording.open, closer=runtime.recording.close
        )
        with opening_runs(runs), pytest.raises(RuntimeError, match="not now"):
            payer("17")
        assert runs.verdict().exit_code == 0
        fails.clear()
        for at in (1, 2):  # asked again, and granted by the part that is shared
            fork, _, error = forked(runtime, origin, ForkPlan.from_arguments(at, read=str), payer)
            assert error is None
            assert values(fork, "pay") == [("rehearsed", "dry_run")]
        assert len(asked) == 2
        assert paid == []
        assert runtime.ledger().approvals() == [granted]
    finally:
        replay.shutdown()


def test_a_fork_with_edited_requests_replays_exactly_and_can_be_forked_again(runtime, world):
    """The agent asks what it asked in the fork, before that was edited: it gets the fork's answers, offline."""
    origin = recorded(runtime)
    fork, _, _ = forked(
        runtime, origin, ForkPlan.from_arguments(6, settings=["model=new", "prompt=Be brief."], read=str)
    )
    asked = len(world.models)
    runs = ReplayRuns([fork], target=fork.run.run_id, opener=runtime.recording.open, closer=runtime.recording.close)
    with opening_runs(runs):
        desk_agents.long("17")
    assert runs.verdict().exit_code == 0, runs.verdict().to_json()
    again, report, error = forked(runtime, fork, ForkPlan.from_arguments(16, settings=["model=newest"], read=str))
    assert error is None
    assert (report.steps_shared, again.run.origin_run_id) == (15, fork.run.run_id)
    assert [body["model"] for body in world.models[asked:]] == ["newest"]


def test_a_fork_is_never_resumed(runtime, world):
    """Resumed, it would be let out of what holds a fork back: it is refused, with what to do instead."""
    origin = recorded(runtime)
    fork, _, error = forked(runtime, origin, ForkPlan.from_arguments(2, read=str), agent=stopped)
    assert isinstance(error, RuntimeError)
    with pytest.raises(CannotJudge, match=f"Fork run {origin.run.run_id.hex()} again"):
        replay.resume(fork.run.run_id.hex(), desk_agents.long)


@replay.agent(name="long")
def stopped(order):
    """Begin like the long agent, and fail."""
    with replay.step("round", number=0):
        raise RuntimeError("it fails here")


def test_clock_and_draws_go_on_from_the_recording_and_are_the_same_in_every_fork(runtime, world):
    """Beyond the step the date is the recorded day's and draws come from a seed: two forks ask the same."""
    origin = recorded(runtime)
    seen = []
    for _ in range(2):
        asked = len(world.models)
        forked(runtime, origin, ForkPlan.from_arguments(6, settings=["model=new"], read=str))
        seen.append(world.models[asked:])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


@pytest.mark.parametrize(
    ("at", "options", "said"),
    [
        (0, {}, "from 1 on"),
        (22, {}, "has 20 steps"),
        (3, {"results": ["2=1"]}, "exact up to step 3"),
        (3, {"results": ["3"]}, "STEP=JSON"),
        (3, {"results": ["3={"]}, "no JSON"),
        (1, {"results": ["1=1"]}, "is a model call"),
        (1, {"settings": ["model"]}, "NAME=VALUE"),
    ],
)
def test_a_plan_that_cannot_be_says_why(runtime, world, at, options, said):
    """A wrong step, result or setting is told before anything runs."""
    origin = recorded(runtime)
    with pytest.raises(ConfigurationError, match=said):
        PreparedFork(origin, ForkPlan.from_arguments(at, **options, read=str))


ENTRY = ["--entry", "tests.support.desk_agents:writer"]
WRITER = ["--", sys.executable, str(ROOT / "tests/support/desk_agents.py"), "writer"]
EDITED = ["--at", "4", "--tool-result", '4={"paid": false}']


@pytest.mark.parametrize(
    ("isolated", "ways"),
    [
        pytest.param(
            False, [(["replay"], WRITER), (["fork", "--at", "1"], ENTRY), (["fork", *EDITED], WRITER)], id="in process"
        ),
        *(
            pytest.param(
                isolated,
                [
                    (words, way)
                    for words in (["replay"], ["fork", "--at", "1"], ["fork", "--at", "3", "--set", "model=new"],
                                  ["fork", *EDITED])
                    for way in (WRITER, ENTRY)
                ],
                id=f"{wall}, every mode in both ways",
                marks=pytest.mark.soak,
            )
            for isolated, wall in ((False, "in process"), (True, "isolated"))
        ),
    ],
)  # fmt: skip
def test_no_mode_sends_a_write_that_it_should_not(tmp_path, world, isolated, ways):
    """Parallel tools, a thread's own HTTP, a child process: after the recording the bank sees nothing more."""
    from otel_agent_replay.replay import isolation

    if isolated and isolation.why_not():
        pytest.skip(isolation.why_not())
    lake = str(tmp_path / "lake")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AGENT_REPLAY_LAKE": lake, "AGENT_REPLAY_SEAL": "off"}

    def run(*words):
        return subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )

    done = run(*WRITER[1:])
    assert done.returncode == 0, done.stderr
    assert len(world.writes) == 5
    seal(Path(lake))
    run_id = next(one.run.run_id.hex() for one in Lake(Path(lake)).runs() if one.run.agent == "writer")
    command = [sys.executable, "-m", "otel_agent_replay"]
    wall = ["--isolate"] if isolated else []
    for (verb, *words), way in ways:
        told = run(*command, verb, run_id, *words, *wall, *way)
        assert told.returncode in (1, 125), told.stdout + told.stderr  # the child process is no part of the tape
        assert len(world.writes) == 5, (verb, words, told.stdout)
