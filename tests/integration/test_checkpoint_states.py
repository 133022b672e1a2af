"""States of checkpoints from the agent to the lake: exact bytes, what they cost, whose are kept, what replays say."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.agents import Script, assert_same, nodes_of, value_of

GROWING = """
import sys
import otel_agent_replay as replay

@replay.agent
def growing(steps):
    notes, seen = [], {}
    for number in range(steps):
        text = f"{number}: " + " ".join(str((number * 7919 + word * 104729) % 10007) for word in range(170))
        notes.append({"role": "user", "content": text})
        seen[f"order-{number}"] = {"ok": number % 3 == 0, "price": number / 7}
        state = {"step": number, "messages": notes, "seen": seen, "scratchpad": "x" * number}
        replay.checkpoint("noted", state, resumable=True)

growing(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """By number of steps: the run, and bytes of journal and lake."""
    found = {}
    for steps in (100, 400):
        script = Script(tmp_path_factory.mktemp(f"growing{steps}"), GROWING)
        script.run(str(steps))
        journal = len(script.journal_bytes())
        script.seal()
        lake = sum(path.stat().st_size for path in script.lake.rglob("*.parquet"))
        found[steps] = script, script.load(script.runs()[0]), journal, lake
    return found


def test_a_step_costs_the_same_however_large_the_state_has_grown(grown):
    """About 1 KB is new at each step: the journal takes little more, the lake less, at step 100 as at step 400."""
    _, _, journal, lake = grown[100]
    _, _, longer_journal, longer_lake = grown[400]
    assert journal / 100 < 1_900
    assert lake / 100 < 1_900
    assert (longer_journal - journal) / 300 < 1_900
    assert (longer_lake - lake) / 300 < 1_900


def test_every_state_comes_back_byte_for_byte(grown):
    """The whole state of each step is what the agent had then."""
    _, recorded, _, _ = grown[400]
    states = nodes_of(recorded, Kind.CHECKPOINT)
    assert len(states) == 400
    for number in (0, 1, 2, 57, 399):
        state = json.loads(value_of(recorded, states[number].call.request.digest))
        assert state["step"] == number
        assert len(state["messages"]) == len(state["seen"]) == number + 1
        assert state["scratchpad"] == "x" * number


def test_states_are_no_messages(grown):
    """Pieces of states do not show among the messages of model calls."""
    script, _, _, _ = grown[100]
    with connect(script.lake) as sql:
        assert sql.execute("SELECT count(*) FROM messages").fetchall() == [(0,)]
        assert sql.execute("SELECT count(*) FROM checkpoints WHERE state LIKE '%order-99%'").fetchall() == [(1,)]


def test_a_run_with_growing_states_replays_exactly(grown):
    """Each state is held against the recorded one."""
    script, recorded, _, _ = grown[100]
    assert_same(script.replay(recorded, "100"))
    script.edit("number / 7", "number / (7 if number < 50 else 8)")
    verdict = script.replay(recorded, "100")
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.departure.step == 51


KEPT = """
import sys
import otel_agent_replay as replay

@replay.tool(side_effect="read")
def look(order):
    return {"order": order}

@replay.agent
def clerk(what):
    replay.checkpoint("planned", {"plan": ["look", what], "long": "state " * 300}, resumable=True)
    look(what)
    if what == "flagged":
        replay.flag("the customer complained")
    if what == "failing":
        raise LookupError(what)

for what in sys.argv[1:]:
    try:
        clerk(what)
    except LookupError:
        pass
"""


def test_states_are_kept_of_runs_that_failed_or_were_flagged(tmp_path):
    """The others keep every record and digest, and say that their states were left out."""
    script = Script(tmp_path, KEPT)
    script.run("fine", "failing", "flagged", AGENT_REPLAY_KEEP_STATE="failed")
    assert b"state state" in script.journal_bytes()
    script.seal()
    kept = {}
    for run in script.runs():
        recorded = script.load(run)
        (state,) = nodes_of(recorded, Kind.CHECKPOINT)
        (given,) = [node.call.request for node in nodes_of(recorded, Kind.TOOL)]
        what = json.loads(value_of(recorded, given.digest))["order"]
        kept[what] = recorded.payload(state.call.request.digest) is not None
        told = [(loss.reason.value, loss.what, loss.count) for loss in recorded.losses]
        assert told == ([] if kept[what] else [("sampled", "checkpoint state", 1)])
        assert len(recorded.nodes) == 3
    assert kept == {"fine": False, "failing": True, "flagged": True}
    with connect(script.lake) as sql:
        flagged = sql.execute("SELECT flag_reasons FROM runs WHERE flagged").fetchall()
    assert flagged == [(["the customer complained"],)]


def test_a_run_without_its_states_replays_exactly(tmp_path):
    """Digests are enough to hold a replay against; a state that differs is still found."""
    script = Script(tmp_path, KEPT)
    recorded = script.record("fine", AGENT_REPLAY_KEEP_STATE="failed")["clerk"]
    assert recorded.losses
    assert_same(script.replay(recorded, "fine"))
    script.edit('["look", what]', '["look", what, "more"]')
    assert script.replay(recorded, "fine").status is VerdictStatus.DEPARTED


def test_a_sample_of_all_runs_keeps_its_states(tmp_path):
    """With a share of one, that is every run."""
    script = Script(tmp_path, KEPT)
    recorded = script.record("fine", AGENT_REPLAY_KEEP_STATE="failed", AGENT_REPLAY_STATE_SAMPLE="1")["clerk"]
    (state,) = nodes_of(recorded, Kind.CHECKPOINT)
    assert b"state state" in value_of(recorded, state.call.request.digest)
    assert recorded.losses == ()


DEEP = """
import otel_agent_replay as replay

@replay.tool(side_effect="read", capture="digest")
def secret(name):
    return {"salary": 90_000}

@replay.agent
def clerk():
    return secret("Kim")["salary"] > 5

clerk()
"""


def test_a_tool_of_which_only_digests_are_kept_says_so_in_an_exact_replay(tmp_path):
    """Nothing of its contents lies in journal or lake; what a replay lacks is named, with its step."""
    script = Script(tmp_path, DEEP)
    script.run()
    assert b"salary" not in script.journal_bytes()
    script.seal()
    recorded = script.load(script.runs()[0])
    with connect(script.lake) as sql:
        row = sql.execute("SELECT arguments, result, request_digest, result_digest FROM tool_calls").fetchone()
    assert row[:2] == (None, None)
    assert all(len(digest) == 64 for digest in row[2:])
    verdict = script.replay(recorded)
    assert verdict.status is VerdictStatus.CANNOT_JUDGE, verdict.to_json()
    assert verdict.exit_code == 125
    assert "step 1" in verdict.to_json()
    assert "result" in verdict.to_json()
