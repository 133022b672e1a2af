"""Agents built with LangGraph, recorded in a child: replayed exactly, and gone on with when their saver is gone."""

from __future__ import annotations

import itertools
import json
import operator
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import Annotated, TypedDict

import pytest

from otel_agent_replay import langgraph as ours
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Kind
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat
from tests.support.agents import Script, assert_same, nodes_of
from tests.support.shares import shared

pytest.importorskip("openai")
pytest.importorskip("langgraph")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

HEAD = """
import asyncio, json, operator, os, sys
from typing import Annotated, TypedDict
import otel_agent_replay as replay
replay.configure()
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

LOOKED_UP = os.environ.get("LOOKED_UP")

class Talk(TypedDict):
    messages: Annotated[list, add_messages]

@replay.tool(side_effect="read")
def look_up(order):
    if LOOKED_UP:
        with open(LOOKED_UP, "a") as file:
            file.write("x")
    return f"order {order}: shipped"

def request(state):
    roles = {"human": "user", "ai": "assistant", "tool": "tool"}
    messages = []
    for one in state["messages"]:
        shown = {"role": roles[one.type], "content": one.content}
        if one.type == "tool":
            shown["tool_call_id"] = one.tool_call_id
        if getattr(one, "tool_calls", None):
            shown["tool_calls"] = [
                {"id": call["id"], "type": "function",
                 "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
                for call in one.tool_calls
            ]
        messages.append(shown)
    return {"model": "m", "messages": messages}

def said(answer):
    message = answer.choices[0].message
    calls = [
        {"name": call.function.name, "args": json.loads(call.function.arguments), "id": call.id}
        for call in message.tool_calls or []
    ]
    return {"messages": [AIMessage(message.content or "", tool_calls=calls)]}

def tools(state):
    calls = state["messages"][-1].tool_calls
    return {"messages": [ToolMessage(look_up(**call["args"]), tool_call_id=call["id"]) for call in calls]}

def onward(state):
    return "tools" if state["messages"][-1].tool_calls else END

def talking(model, saver):
    graph = StateGraph(Talk)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", onward, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)

def texts(state):
    return [[one.type, one.content, one.id] for one in state["messages"]]
"""

TALKS = (
    HEAD
    + """
import openai

client = openai.OpenAI(max_retries=0)
plain = talking(lambda state: said(client.chat.completions.create(**request(state))), InMemorySaver())

@replay.agent
def support(question):
    config = {"configurable": {"thread_id": "t-1"}}
    plain.invoke({"messages": [HumanMessage(question)]}, config)
    state = plain.get_state(config)
    return texts(state.values), state.config["configurable"]["checkpoint_id"]

async def main():
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(os.environ.get("THREADS", ":memory:")) as saver:
        async with openai.AsyncOpenAI(max_retries=0) as one:
            async def model(state):
                return said(await one.chat.completions.create(**request(state)))

            graph = talking(model, saver)

            @replay.agent(name="turn")
            async def turn(question):
                config = {"configurable": {"thread_id": "t-2"}}
                state = await graph.ainvoke({"messages": [HumanMessage(question)]}, config)
                return texts(state), [found.next async for found in graph.aget_state_history(config, limit=2)]

            for question in ("where is 7?", "and 8?"):
                print(json.dumps(await turn(question)))

class Votes(TypedDict):
    votes: Annotated[list, operator.add]

def voter(name):
    def vote(state):
        request = {"model": "m", "messages": [{"role": "tool", "content": name, "tool_call_id": "1"}]}
        return {"votes": [client.chat.completions.create(**request).choices[0].message.content]}
    return vote

@replay.agent
def election():
    graph = StateGraph(Votes)
    for name in ("one", "two", "three"):
        graph.add_node(name, voter(name))
        graph.add_edge(START, name)
    return graph.compile(checkpointer=InMemorySaver()).invoke({"votes": []}, {"configurable": {"thread_id": "t-3"}})

print(json.dumps(support("where is 7?")))
asyncio.run(main())
print(json.dumps(election()))
"""
)


def answering(request):
    """Ask for the order that the last user named, then say what the tool found."""
    messages = json.loads(request.body)["messages"]
    last = messages[-1]
    if last["role"] == "tool":
        return openai_chat(f"it says: {last['content']}")
    order = "".join(filter(str.isdigit, last["content"]))
    call = {"id": f"call_{len(messages)}", "name": "look_up", "arguments": json.dumps({"order": order})}
    return openai_chat(None, tool_calls=[call])


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    """The script, its recorded runs in order, what it printed, and how often its tool had run."""
    folder = tmp_path_factory.mktemp("talks")
    with ScriptedProvider(answering) as provider:
        script = Script(
            folder, TALKS, OPENAI_BASE_URL=provider.url + "/v1", OPENAI_API_KEY="sk-" + "a" * 24,
            THREADS=str(folder / "threads.sqlite"), LOOKED_UP=str(folder / "looked-up"),
        )  # fmt: skip
        ended = script.run()
    script.seal()
    printed = [json.loads(line) for line in ended.stdout.splitlines()]
    return script, [script.load(run) for run in script.runs()], printed


@pytest.mark.parametrize(
    ("number", "threads"), shared(itertools.product(range(4), ["lasting", ":memory:"]), (0, ":memory:"))
)
def test_a_graph_of_models_and_tools_replays_exactly(talks, number, threads):
    """Sync, async, a turn of an older thread, parallel nodes: without provider, tool or database, the same in each."""
    script, runs, _ = talks
    recorded = runs[number]
    looked_up = (script.folder / "looked-up").read_text()
    kept = (script.folder / "threads.sqlite").read_bytes()
    assert_same(script.replay(recorded, environment={"THREADS": threads} if threads == ":memory:" else {}))
    assert (script.folder / "looked-up").read_text() == looked_up
    assert (script.folder / "threads.sqlite").read_bytes() == kept


def test_the_recorded_states_are_langgraphs(talks):
    """Each super-step is a checkpoint with LangGraph's id, parent and next nodes; ids differ, the runs do not mix."""
    _, runs, printed = talks
    (last_id,) = printed[0][1:]
    found = ours.checkpoints(runs[0])
    assert [one.graph_step for one in found] == [-1, 0, 1, 2, 3]
    assert [one.next for one in found] == [("__start__",), ("model",), ("tools",), ("model",), ()]
    assert [one.source for one in found] == ["input", "loop", "loop", "loop", "loop"]
    assert [one.parent_checkpoint_id for one in found] == [None, *(one.checkpoint_id for one in found[:-1])]
    assert found[-1].checkpoint_id == last_id
    assert [one.resumable for one in found] == [True, True, True, True, False]
    assert found[-1].unsafe_reasons == ("the graph is at its end",)
    assert {one.thread_id for one in ours.checkpoints(runs[2])} == {"t-2"}
    assert ours.checkpoints(runs[2])[0].parent_checkpoint_id == ours.checkpoints(runs[1])[-1].checkpoint_id


def test_an_async_graph_is_one_tree(talks):
    """Every step of an asynchronous graph lies in its run's one tree, under the run's trace, never as a root."""
    _, runs, _ = talks
    recorded = runs[1]
    spans = {item.span.span_id: item for item in recorded.spans}
    roots = [item for item in recorded.spans if item.span.parent_span_id not in spans]
    assert [item.node.kind for item in roots] == [Kind.RUN]
    assert {item.span.trace_id for item in recorded.spans} == {recorded.run.trace_id}
    assert {item.node.run_id for item in recorded.spans} == {recorded.run.run_id}
    assert len(nodes_of(recorded, Kind.MODEL)) == 2
    assert len(nodes_of(recorded, Kind.TOOL)) == 1
    assert len(nodes_of(recorded, Kind.CHECKPOINT)) == 9


STEPS = (
    HEAD
    + """
class Log(TypedDict):
    log: Annotated[list, operator.add]

def node(name):
    def run(state):
        with open(os.environ["DONE"], "a") as file:
            file.write(name)
        if name == os.environ.get("DIES_IN"):
            os._exit(9)
        return {"log": [name]}
    return run

def five():
    graph = StateGraph(Log)
    graph.add_sequence([(name, node(name)) for name in "abcde"])
    graph.add_edge(START, "a")
    return graph

def saver():
    from langgraph.checkpoint.sqlite import SqliteSaver
    import sqlite3
    return SqliteSaver(sqlite3.connect(os.environ["STATES"], check_same_thread=False))

KEPT = saver()
CONFIG = {"configurable": {"thread_id": "t"}, "metadata": {"team": "blue"}}

@replay.agent
def chain():
    return five().compile(checkpointer=KEPT).invoke({"log": ["q"]}, CONFIG, durability="sync")["log"]

if __name__ == "__main__":
    print(json.dumps(chain()))
"""
)


class Log(TypedDict):
    log: Annotated[list, operator.add]


def five(done):
    """The same graph as the script's, in this process."""

    def node(name):
        def run(state):
            done.append(name)
            return {"log": [name]}

        return run

    graph = StateGraph(Log)
    graph.add_sequence([(name, node(name)) for name in "abcde"])
    graph.add_edge(START, "a")
    return graph


def plainly(found):
    """A `CheckpointTuple` without what says where it lies."""
    return {
        "checkpoint": found.checkpoint,
        "metadata": found.metadata,
        "parent": None if found.parent_config is None else found.parent_config["configurable"]["checkpoint_id"],
    }


def test_a_graph_goes_on_from_the_recording_alone(tmp_path):
    """The process died in the fourth node and took its saver along: nodes one to three are not run again."""
    script = Script(tmp_path, STEPS, DONE=str(tmp_path / "done"), STATES=str(tmp_path / "states.sqlite"))
    script.run(status=9, DIES_IN="d")
    assert (tmp_path / "done").read_text() == "abcd"
    script.seal()
    (run,) = script.runs()
    recorded = script.load(run)

    # What LangGraph's own saver had, were it still there.
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(tmp_path / "states.sqlite")) as connection:
        theirs = SqliteSaver(connection).list({"configurable": {"thread_id": "t"}})
        had = {found.checkpoint["id"]: found for found in theirs}
    found = ours.checkpoints(recorded)
    assert sorted(had) == [one.checkpoint_id for one in found]

    place = next(one for one in found if one.next == ("d",))
    fresh, done = InMemorySaver(), []
    config = ours.restore(recorded, place.step, fresh)
    assert config == ours.restore(recorded, place.checkpoint_id, InMemorySaver())
    for kept in fresh.list(None):
        assert plainly(kept) == plainly(had[kept.checkpoint["id"]])
    assert len(list(fresh.list(None))) == len(found)
    assert fresh.get_tuple(config).metadata["team"] == "blue"
    result = five(done).compile(checkpointer=fresh).invoke(None, config)
    assert result == {"log": ["q", "a", "b", "c", "d", "e"]}
    assert done == ["d", "e"]

    # The writes of a node may still be on their way when the process dies: the checkpoint behind them has them too.
    unsaved = replace(recorded, spans=tuple(map(cut_off_in_writes, recorded.spans)))
    again = []
    fresh = InMemorySaver()
    five(again).compile(checkpointer=fresh).invoke(None, ours.restore(unsaved, place.step, fresh))
    assert again == ["d", "e"]


def cut_off_in_writes(item):
    """Return a span of the recording as it is when the process died while a node's writes were saved."""
    node = item.node
    return item if node is None or node.name != "langgraph.writes" else replace(item, node=replace(node, outcome=None))


@pytest.mark.parametrize("saver", ["lasting", pytest.param("in memory", marks=pytest.mark.soak)])
def test_a_killed_graph_is_resumed(tmp_path, saver):
    """The same run goes on, and its saver has the whole thread in the end, whether it outlived the process or not."""
    source = STEPS if saver == "lasting" else STEPS.replace("KEPT = saver()", "KEPT = InMemorySaver()")
    source += "    print(json.dumps(five().compile(checkpointer=KEPT).get_state(CONFIG).values['log']))\n"
    script = Script(tmp_path, source, DONE=str(tmp_path / "done"), STATES=str(tmp_path / "states.sqlite"))
    script.run(status=9, DIES_IN="d")
    script.seal()
    (run,) = script.runs()
    command = [sys.executable, "-m", "otel_agent_replay", "resume", "--lake", str(script.lake), run.run_id.hex()]
    ended = subprocess.run(
        [*command, "--", *script.argv],
        env=script.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    whole = ["q", "a", "b", "c", "d", "e"]
    assert [json.loads(line) for line in ended.stdout.splitlines()[:2]] == [whole, whole]
    script.seal()
    found = ours.checkpoints(script.load(run))
    assert [one.graph_step for one in found] == [-1, 0, 1, 2, 3, 4, 5]
    assert len({one.checkpoint_id for one in found}) == 7


TURNS = STEPS.replace(
    """    return five().compile(checkpointer=KEPT).invoke({"log": ["q"]}, CONFIG, durability="sync")["log"]
""",
    """    graph = five().compile(checkpointer=KEPT)
    first = name("q")
    if first == "edited":  # only the service's own saver can say this
        assert not graph.get_state({"configurable": {"thread_id": "never asked for"}}).values
    graph.invoke({"log": [first]}, CONFIG, durability="sync")
    return graph.invoke({"log": ["more"]}, CONFIG, durability="sync")["log"]
""",
).replace("KEPT = saver()", "KEPT = saver()\n\n@replay.tool(side_effect='read')\ndef name(text):\n    return text\n")


@pytest.mark.parametrize(
    "isolated", [pytest.param(False, id="in process", marks=pytest.mark.soak), pytest.param(True, id="isolated")]
)
def test_a_fork_reads_a_lasting_saver_and_changes_none_of_it(tmp_path, isolated):
    """The fence lets the saver say again what is there already, and read; where its file is missing, it is named.

    Under the kernel's walls SQLite cannot even read its journal of this mode: the folder is to be allowed.
    """
    from otel_agent_replay.replay import isolation

    if isolated and isolation.why_not():
        pytest.skip(isolation.why_not())
    (tmp_path / "states").mkdir()
    states = tmp_path / "states" / "kept.sqlite"
    script = Script(tmp_path, TURNS, DONE=os.devnull, STATES=str(states))
    script.run()
    script.seal()
    (run,) = script.runs()
    before = dump(states)
    wall = ["--isolate", "--allow-write", str(states.parent)] if isolated else []
    command = [sys.executable, "-m", "otel_agent_replay", "fork", "--lake", str(script.lake), run.run_id.hex()]
    asked = {"env": script.environment, "cwd": tmp_path, "capture_output": True, "text": True}
    words = [*command, "--at", "1", "--tool-result", '1="edited"', *wall, "--", *script.argv]
    ended = subprocess.run(words, check=False, **asked)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    first, *_, last = json.loads(ended.stdout.splitlines()[0])
    assert (first, last) == ("edited", "e")
    assert dump(states) == before
    if not isolated:
        states.rename(tmp_path / "elsewhere.sqlite")
        ended = subprocess.run(words, check=False, **asked)
        assert ended.returncode == 125
        assert f"refused: write {states}" in ended.stdout
        assert f"--allow-write {states.parent}" in ended.stderr


def dump(database):
    """Return all that a database holds."""
    with closing(sqlite3.connect(database)) as connection:
        return list(connection.iterdump())


def test_a_place_where_nothing_was_saved_is_refused(talks):
    """The error names the steps at which the run's graphs did save."""
    _, runs, _ = talks
    with pytest.raises(ConfigurationError, match="no LangGraph checkpoint at step 1; its graphs saved at the steps 2,"):
        ours.restore(runs[0], 1, InMemorySaver())
    with pytest.raises(ConfigurationError, match="the id 'nowhere'"):
        ours.restore(runs[0], "nowhere", InMemorySaver())


@pytest.mark.asyncio
async def test_a_conversation_goes_on_in_an_asynchronous_saver(talks):
    """Messages come back by value, and an older checkpoint is a place to branch off from."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    _, runs, printed = talks
    place = ours.checkpoints(runs[1])[-1]
    async with AsyncSqliteSaver.from_conn_string(":memory:") as fresh:
        config = await ours.arestore(runs[1], place.step, fresh)
        found = await fresh.aget_tuple(config)
    messages = found.checkpoint["channel_values"]["messages"]
    assert [[one.type, one.content, one.id] for one in messages] == printed[1][0]


def test_what_parallel_nodes_wrote_is_in_the_run(talks):
    """LangGraph saves it from threads that carry nothing; each node's writes are in its run all the same."""
    _, runs, printed = talks
    saved = [node.name for node in nodes_of(runs[3], Kind.CHECKPOINT)]
    assert saved.count("langgraph.writes") == 4
    assert sorted(printed[3]["votes"]) == ["it says: one", "it says: three", "it says: two"]


MAILS = (
    HEAD
    + """
from langgraph.types import Command, interrupt

@replay.tool(side_effect="write", idempotency_key="order")
def mail(order):
    with open(os.environ["DONE"], "a") as file:
        file.write("mail ")
    return f"mailed {order}"

class Log(TypedDict):
    log: Annotated[list, operator.add]

def ask(state):
    return {"log": [mail("o-7"), interrupt("refund too?")]}

@replay.agent
def desk():
    graph = StateGraph(Log)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert graph.invoke({"log": []}, config)["__interrupt__"][0].value == "refund too?"
    return graph.invoke(Command(resume="yes"), config)["log"]

print(json.dumps(desk()))
"""
)


def test_code_before_a_question_mails_once(tmp_path):
    """A node begins anew when its question is answered; a write with a key of its own is made once, by the ledger."""
    script = Script(tmp_path, MAILS, DONE=str(tmp_path / "done"))
    ended = script.run(AGENT_REPLAY_LEDGER="file")
    assert json.loads(ended.stdout) == ["mailed o-7", "yes"]
    assert (tmp_path / "done").read_text() == "mail "
    script.seal()
    (run,) = script.runs()
    recorded = script.load(run)
    assert [str(node.source) for node in nodes_of(recorded, Kind.TOOL)] == ["live", "ledger"]
    assert_same(script.replay(recorded))
    assert (tmp_path / "done").read_text() == "mail "
