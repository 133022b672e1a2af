"""The view `checkpoints`: what it takes to be back at a save-point, as columns."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from click.testing import CliRunner

import otel_agent_replay as replay
from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.views import connect
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import CaptureLevel, Kind, SideEffect
from tests.support.agents import Script
from tests.support.lake_runs import RunMaker, answer

SOURCE = """
import json, os, sys, urllib3
import otel_agent_replay as replay

pool = urllib3.PoolManager()

@replay.tool(side_effect="read")
def look(order):
    if order == "13":
        raise LookupError(order)
    return {"order": order, "note": "n" * 400}

@replay.tool(side_effect="write", idempotency_key="order")
def refund(order, cents):
    replay.checkpoint("half way", {"plan": ["wait"]}, resumable=True)
    return "paid"

@replay.tool(side_effect="write")
def post(letter):
    replay.checkpoint("posting", resumable=True)

@replay.retriever(name="handbook")
def search(query):
    return [
        {"id": 7, "page_content": "Refunds take a day.", "metadata": {"source": "handbook.pdf"}},
        ("A plain text.", 0.5),
    ]

@replay.retriever(name="letters", capture="digest")
def secrets(query):
    return ["Dear Kim"]

def ask(messages):
    body = {"model": "gpt-4o", "messages": messages}
    reply = pool.request("POST", os.environ["MODEL_URL"] + "/v1/chat/completions", json=body,
                         headers={"authorization": "Bearer sk-none"})
    return json.loads(reply.data)["choices"][0]["message"]["content"]

@replay.agent(version="7", prompt_version="p2", policy_version="strict", thread_id="talk", max_steps=60)
def desk(question, talk):
    replay.checkpoint("start", resumable=False, unsafe_reasons=["nothing is known yet"])
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": question}]
    ask(messages)
    found = search(question)
    secrets("Kim")
    look("17")
    state = {"plan": ["look", "pay"], "scratchpad": "s", "variables": {"order": "17"}, "budget": {"steps": 30}}
    replay.checkpoint("looked", state, resumable=True)
    refund("17", 500)
    try:
        look("13")
    except LookupError:
        pass
    ask([*messages, {"role": "assistant", "content": "One moment."}])
    replay.checkpoint("failed", state, resumable=True, budget={"tokens": 900, "steps": 50})
    with replay.step("mail"):
        post("Dear Kim")
    return "done"

desk("Refund order 17?", talk="talk-1")
"""

DIGEST = SOURCE.replace("max_steps=60", "max_steps=60, capture='digest'")


def rows(lake, columns="*"):
    with connect(lake) as sql:
        found = sql.execute(f"SELECT {columns} FROM checkpoints ORDER BY step")
        names = [column[0] for column in found.description]
        return {row[names.index("name")]: dict(zip(names, row, strict=True)) for row in found.fetchall()}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The checkpoints of the same agent by name, recorded as usual and by digests only."""
    from otel_agent_replay.testing import ScriptedProvider
    from otel_agent_replay.testing.replies import echo

    found = []
    for name, source in (("kept", SOURCE), ("digests", DIGEST)):
        with ScriptedProvider(echo) as server:
            script = Script(tmp_path_factory.mktemp(name), source, MODEL_URL=server.url)
            script.record()
        found.append((script, rows(script.lake)))
    return found


def test_a_checkpoint_says_where_and_with_what_it_was_taken(recorded):
    """Run, thread, step, node, time and versions are columns."""
    script, points = recorded[0]
    (run,) = script.runs()
    assert list(points) == ["start", "looked", "half way", "failed", "posting"]
    first = points["start"]
    assert (first["run_id"], first["thread_id"], first["step"]) == (run.run_id.hex(), "talk-1", 1)
    assert first["path"] == "run:desk#0/checkpoint:start#0"
    assert points["posting"]["path"] == "run:desk#0/scope:mail#0/tool:post#0/checkpoint:posting#0"
    assert (first["version_agent"], first["version_prompt"], first["version_policy"]) == ("7", "p2", "strict")
    assert first["version_model_route"] == "gpt-4o"
    assert first["started_at"] <= points["posting"]["started_at"]


def test_the_input_is_the_last_request_before_it(recorded):
    """Its messages come with role, digest and text; before any model call there is none."""
    _, points = recorded[0]
    assert (points["start"]["input_digest"], points["start"]["input_messages"]) == (None, None)
    asked = points["looked"]["input_messages"]
    assert [one["role"] for one in asked] == ["system", "user"]
    assert [json.loads(one["text"])["content"] for one in asked] == ["Be kind.", "Refund order 17?"]
    assert [one["digest"] for one in asked] == [hashlib.sha256(one["text"].encode()).hexdigest() for one in asked]
    later = points["failed"]["input_messages"]
    assert later[:2] == asked
    assert json.loads(later[2]["text"])["content"] == "One moment."
    assert points["failed"]["input_step"] > points["looked"]["input_step"]
    assert points["looked"]["input_model"] == "gpt-4o"


def test_the_context_is_what_searches_had_found(recorded):
    """Each document has id, source, digest and text; of a search kept by digest there is the digest."""
    _, points = recorded[0]
    assert points["start"]["context"] is None
    first, second, third = points["looked"]["context"]
    assert first == {
        "id": "7",
        "source": "handbook.pdf",
        "digest": hashlib.sha256(b"Refunds take a day.").hexdigest(),
        "text": "Refunds take a day.",
    }
    assert (second["id"], second["source"], second["text"]) == (None, "handbook", "A plain text.")
    assert (third["source"], third["text"], len(third["digest"])) == ("letters", None, 64)


def test_the_state_and_its_parts_are_columns(recorded):
    """Plan, scratchpad, variables and budget come out of the state; a declared budget goes before."""
    _, points = recorded[0]
    looked = points["looked"]
    assert json.loads(looked["state"])["variables"] == {"order": "17"}
    assert hashlib.sha256(looked["state"].encode()).hexdigest() == looked["state_digest"]
    assert json.loads(looked["plan"]) == ["look", "pay"]
    assert (json.loads(looked["scratchpad"]), json.loads(looked["variables"])) == ("s", {"order": "17"})
    assert json.loads(looked["budget"]) == {"steps": 30}
    assert json.loads(points["failed"]["budget"]) == {"tokens": 900, "steps": 50}
    assert (points["start"]["plan"], points["start"]["budget"]) == (None, None)


def test_what_was_used_stands_beside_what_is_allowed(recorded):
    """Steps and tokens so far; allowed by the declared budget, the state's, or the run's fuse, in this order."""
    script, points = recorded[0]
    assert [points[name]["steps_allowed"] for name in ("start", "looked", "failed")] == [60, 30, 50]
    assert points["failed"]["steps_used"] == points["failed"]["step"]
    assert (points["start"]["tokens_used"], points["failed"]["tokens_allowed"]) == (0, 900)
    with connect(script.lake) as sql:
        calls = sql.execute("SELECT input_tokens + output_tokens FROM model_calls ORDER BY step").fetchall()
    assert points["looked"]["tokens_used"] == calls[0][0] > 0
    assert points["failed"]["tokens_used"] == calls[0][0] + calls[1][0]


def test_the_tool_call_in_flight_is_there_with_its_result(recorded):
    """The call around a checkpoint comes first; without one, the last result before it is shown."""
    _, points = recorded[0]
    paying = points["half way"]
    assert (paying["tool"], paying["tool_idempotency_key"], paying["tool_side_effect"]) == ("refund", "17", "write")
    assert json.loads(paying["tool_arguments"]) == {"order": "17", "cents": 500}
    assert hashlib.sha256(paying["tool_arguments"].encode()).hexdigest() == paying["tool_arguments_digest"]
    assert (paying["result_of"], paying["result_ok"], paying["result_preview"]) == ("refund", True, '"paid"')
    assert paying["result_latency_ms"] > 0
    looked = points["looked"]
    assert (looked["tool"], looked["result_of"], looked["result_ok"]) == (None, "look", True)
    assert len(looked["result_preview"]) == 200
    failed = points["failed"]
    assert (failed["result_of"], failed["result_ok"], failed["result_error_type"]) == ("look", False, "LookupError")
    assert (points["start"]["result_of"], points["start"]["result_ok"]) == (None, None)


def test_whether_one_may_go_on_and_why_not(recorded):
    """Declared, and doubted while a write without a key is in flight."""
    _, points = recorded[0]
    told = {name: (point["resumable"], point["unsafe_reasons"], point["mode"]) for name, point in points.items()}
    assert told == {
        "start": (False, ["nothing is known yet"], "record"),
        "looked": (True, [], "record"),
        "half way": (True, [], "record"),
        "failed": (True, [], "record"),
        "posting": (False, ["post is in flight and has no idempotency key"], "record"),
    }


def test_of_a_run_kept_by_digests_the_facts_are_the_same(recorded):
    """Digests, order, tools, tokens and replay facts stay; contents are null."""
    (_, kept), (_, digests) = recorded
    contents = {"state", "plan", "scratchpad", "variables", "tool_arguments", "result_preview", "input_messages"}
    for name, point in digests.items():
        assert {point[column] for column in contents} == {None}
        for column in ("state_digest", "tool", "tool_arguments_digest", "result_of", "result_ok", "resumable"):
            assert point[column] == kept[name][column]
    assert [one["text"] for one in digests["looked"]["context"]] == [None, None]
    assert digests["failed"]["tokens_used"] == kept["failed"]["tokens_used"]
    assert json.loads(digests["failed"]["budget"]) == {"tokens": 900, "steps": 50}


def test_show_says_the_state_and_what_it_takes_to_be_back(recorded):
    """`show --step` of a checkpoint, on the screen and as a document."""
    script, points = recorded[0]
    run_id = script.runs()[0].run_id.hex()

    def show(name, *options):
        arguments = ["show", run_id, "--step", str(points[name]["step"]), "--lake", str(script.lake), *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    looked = show("looked")
    for text in ('"order": "17"', "resumable", "thread talk-1", "prompt p2", "of 30", "input  step 2, gpt-4o"):
        assert text in looked
    for text in ("Refund order 17?", "handbook.pdf", "Refunds take a day.", "result of look"):
        assert text in looked
    paying = show("half way")
    assert "in flight  refund" in paying
    assert "key 17" in paying
    assert "post is in flight and has no idempotency key" in show("posting")
    document = json.loads(show("failed", "--json"))
    facts = document["checkpoint"]
    assert document["request_body"]["plan"] == ["look", "pay"]
    assert facts["budget"] == {"tokens": 900, "steps": 50}
    assert (facts["result_ok"], facts["result_error_type"]) == (False, "LookupError")
    assert [one["role"] for one in facts["input_messages"]] == ["system", "user", "assistant"]
    other = CliRunner().invoke(main, ["show", run_id, "--step", "2", "--lake", str(script.lake), "--json"])
    assert json.loads(other.stdout)["checkpoint"] is None


@pytest.mark.soak
def test_a_thousand_checkpoints_in_a_large_lake_are_read_in_about_a_second(tmp_path):
    """A hundred runs of a thousand spans each, ten of them with checkpoints: whole rows, contents and all."""
    runs = []
    for number in range(100):
        maker = RunMaker(number)
        messages = [{"role": "user", "content": f"question {number}"}]
        for step in range(333):
            maker.tool("look", {"order": step}, {"price": step})
            if step % 10 == 0:
                maker.model(messages, answer("I look."))
            if number < 10 and step % 3 == 0 and step < 300:
                state = maker.value({"plan": ["look"], "seen": list(range(step))})
                maker.add(Kind.CHECKPOINT, f"c{step}", state, maker.value(None), side_effect=SideEffect.NONE)
            maker.tool("pay", {"order": step}, "ok", side_effect=SideEffect.WRITE)
            maker.tool("look", {"again": step}, {"price": step})
        runs.append(maker.run())
    write_runs(tmp_path, runs, segments=["one"])
    with connect(tmp_path) as sql:
        assert sql.execute("SELECT count(*) FROM spans").fetchone()[0] > 100_000
        best = 60.0
        for _ in range(3):
            started = time.process_time()
            found = sql.execute("SELECT * FROM checkpoints").fetchall()
            best = min(best, time.process_time() - started)
    assert len(found) == 1_000
    assert best < 2.0  # of all threads together; half a second on the machine that it was written on


def test_the_level_of_a_retriever_is_its_own():
    """What the decorator takes is what other tools take."""
    with pytest.raises(ValueError, match="nothing"):
        replay.retriever(capture="nothing")(print)
    assert replay.retriever(capture=CaptureLevel.DIGEST)(len) is not None
