"""LangGraph's savers inside a run: each works as it does outside, and what it saves and loads is recorded."""

from __future__ import annotations

import asyncio
import copy
import json
import operator
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from typing import Annotated, TypedDict

import pytest

import otel_agent_replay as replay
from otel_agent_replay import langgraph as ours
from otel_agent_replay import semconv
from otel_agent_replay.boundary import frameworks
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import FORK
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.compare.node_changes import PairComparer
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.errors import CannotJudge, ConfigurationError, ReplayDeparture
from otel_agent_replay.model import AnswerSource, Kind, Node, RecordedRun, RecordedSpan, Run, Span
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.continued_report import ContinuedStatus
from otel_agent_replay.replay.entering import Entrance, entrance_before
from otel_agent_replay.replay.fork import ForkPlan
from tests.support.forking import forked, recorded, runtime
from tests.support.tape_session import MemoryObserver, recording, replaying

pytest.importorskip("langgraph")

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

AT = {"configurable": {"thread_id": "t"}}
__all__ = ["runtime"]  # the fixture


@pytest.fixture(autouse=True)
def _hooked():
    frameworks.install()
    yield
    frameworks.uninstall()


class Log(TypedDict, total=False):
    log: Annotated[list, operator.add]
    item: str


def node(name):
    return lambda state: {"log": [name]}


def line(saver):
    graph = StateGraph(Log)
    graph.add_sequence([(name, node(name)) for name in "abc"])
    graph.add_edge(START, "a")
    return graph.compile(checkpointer=saver)


class InMemory:
    """Both ways to ask the saver in memory."""

    lasting = False

    def __init__(self, is_async):
        self.is_async = is_async

    @contextmanager
    def running(self) -> Iterator:
        yield lambda use: asyncio.run(use(InMemorySaver()))


class Sqlite:
    """The two savers of SQLite, one for each way."""

    lasting = True

    def __init__(self, is_async):
        self.is_async = is_async

    @contextmanager
    def running(self) -> Iterator:
        if self.is_async:

            async def within(use):
                async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
                    return await use(saver)

            yield lambda use: asyncio.run(within(use))
        else:
            with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
                yield lambda use: asyncio.run(use(SqliteSaver(connection)))


SAVERS = [pytest.param(kind(is_async), id=f"{kind.__name__}-{'async' if is_async else 'sync'}")
          for kind in (InMemory, Sqlite) for is_async in (False, True)]  # fmt: skip


async def everything(kind, saver):
    """Save, load, list, copy and delete; return what a user sees of it, ids and times left out."""
    graph, seen = line(saver), []
    if kind.is_async:
        seen.append(await graph.ainvoke({"log": ["q"]}, AT))
        seen.append((await graph.aget_state(AT)).values)
        seen.append([(one.next, one.values) async for one in graph.aget_state_history(AT)])
        await graph.aupdate_state(AT, {"log": ["edited"]}, as_node="a")
        seen.append((await graph.aget_state(AT)).next)
        seen.append(await graph.ainvoke(None, AT))
        seen.append([one.metadata["step"] async for one in saver.alist(AT, limit=2)])
        seen.append([one.metadata["step"] async for one in saver.alist(AT, filter={"source": "update"})])
        await saver.adelete_thread("t")
        seen.append(await saver.aget_tuple(AT))
    else:
        seen.append(graph.invoke({"log": ["q"]}, AT))
        seen.append(graph.get_state(AT).values)
        seen.append([(one.next, one.values) for one in graph.get_state_history(AT)])
        graph.update_state(AT, {"log": ["edited"]}, as_node="a")
        seen.append(graph.get_state(AT).next)
        seen.append(graph.invoke(None, AT))
        seen.append([one.metadata["step"] for one in saver.list(AT, limit=2)])
        seen.append([one.metadata["step"] for one in saver.list(AT, filter={"source": "update"})])
        saver.delete_thread("t")
        seen.append(saver.get_tuple(AT))
    assert isinstance(saver, BaseCheckpointSaver)
    clone = copy.copy(saver)
    assert type(clone) is type(saver)
    assert clone is not saver
    return seen


@pytest.mark.parametrize("kind", SAVERS)
def test_a_saver_works_in_a_run_as_outside(kind):
    """Saved, loaded, listed, edited, continued, deleted: the same inside a run, and in its replay without the saver."""
    with kind.running() as run:
        outside = run(lambda saver: everything(kind, saver))
    with recording() as observer, kind.running() as run:
        inside = run(lambda saver: everything(kind, saver))
    assert inside == outside
    assert not observer.losses
    with replaying(observer.exchanges) as (tape, again), kind.running() as run:
        replayed = run(lambda saver: everything(kind, saver))
    assert replayed == outside
    assert not tape.left
    assert not again.losses


@pytest.mark.parametrize("kind", SAVERS)
def test_each_save_is_recorded_once(kind):
    """An asynchronous method that is made of the other one, or the reverse, makes one checkpoint, not two."""

    async def use(saver):
        return await line(saver).ainvoke({"log": []}, AT) if kind.is_async else line(saver).invoke({"log": []}, AT)

    with recording() as observer, kind.running() as run:
        run(use)
    saved = [one for one in observer.exchanges if one.call.kind is Kind.CHECKPOINT]
    assert sorted(one.call.name for one in saved) == ["langgraph"] * 5 + ["langgraph.writes"] * 4
    ids = [one.call.attributes[semconv.LANGGRAPH_CHECKPOINT_ID] for one in saved if one.call.name == "langgraph"]
    assert len(set(ids)) == 5


def test_outside_a_run_nothing_is_recorded_and_unhooked_classes_are_as_they_were():
    """A service that records nothing gets LangGraph's own methods' results; without hooks, its own methods."""
    assert line(InMemorySaver()).invoke({"log": ["q"]}, AT) == {"log": ["q", "a", "b", "c"]}
    put = InMemorySaver.put
    frameworks.uninstall()
    assert InMemorySaver.put is not put
    assert InMemorySaver.put is put.__wrapped__


def test_a_saver_of_ones_own_is_recorded_too():
    """A subclass defined later, one that wraps another saver's methods, and one whose methods come from a mix-in."""

    class Loud(InMemorySaver):
        def put(self, config, checkpoint, metadata, new_versions):
            self.heard = True
            return super().put(config, checkpoint, metadata, new_versions)

    class Methods:
        def put(self, config, checkpoint, metadata, new_versions):
            return InMemorySaver.put(self, config, checkpoint, metadata, new_versions)

    class Mixed(Methods, InMemorySaver):
        pass

    for made in (Loud, Mixed):
        with recording() as observer:
            line(made()).invoke({"log": []}, AT)
        assert [one.call.name for one in observer.exchanges].count("langgraph") == 5


def test_a_failure_of_ours_never_reaches_the_graph(monkeypatch):
    """A checkpoint that cannot be taken down is saved by LangGraph all the same, and counted as a loss."""
    monkeypatch.setattr("otel_agent_replay.boundary.frameworks.langgraph_state.state_of", lambda checkpoint: 1 / 0)
    saver = InMemorySaver()
    with recording() as observer:
        assert line(saver).invoke({"log": ["q"]}, AT) == {"log": ["q", "a", "b", "c"]}
    assert len(list(saver.list(AT))) == 5
    assert len(observer.losses) >= 5
    saved = [one.call for one in observer.exchanges if one.call.name == "langgraph"]
    assert not any(call.attributes[semconv.CHECKPOINT_RESUMABLE] for call in saved)


def test_a_saver_that_fails_fails_in_the_replay_too():
    """Its error is raised as it was, and is again from the tape."""

    class Broken(InMemorySaver):
        def put(self, config, checkpoint, metadata, new_versions):
            raise TimeoutError("database gone")

    with recording() as observer, pytest.raises(TimeoutError, match="database gone"):
        line(Broken()).invoke({"log": []}, AT)
    with replaying(observer.exchanges), pytest.raises(TimeoutError, match="database gone"):
        line(InMemorySaver()).invoke({"log": []}, AT)


def test_another_state_departs():
    """A node that gives something else is noticed at the checkpoint of its step."""
    with recording() as observer:
        line(InMemorySaver()).invoke({"log": ["q"]}, AT)
    with replaying(observer.exchanges), pytest.raises(ReplayDeparture):
        line(InMemorySaver()).invoke({"log": ["other"]}, AT)


def branching(saver):
    """A graph with parallel nodes, a join, a deferred node, sends and an end."""
    graph = StateGraph(Log)
    for name in ("start", "left", "right", "joined", "late", "each"):
        graph.add_node(name, node(name), defer=name == "late")
    graph.add_edge(START, "start")
    graph.add_edge("start", "left")
    graph.add_edge("start", "right")
    graph.add_edge(["left", "right"], "joined")
    graph.add_edge("left", "late")
    graph.add_conditional_edges("joined", lambda state: [Send("each", {"item": one}) for one in "xy"], ["each"])
    graph.add_edge("late", END)
    return graph.compile(checkpointer=saver)


def test_what_comes_next_is_what_langgraph_says():
    """The nodes that a checkpoint is said to be followed by are those of LangGraph's own state, at every super-step."""
    saver = InMemorySaver()
    graph = branching(saver)
    with recording() as observer:
        graph.invoke({"log": []}, AT, durability="sync")
    said = {
        one.call.attributes[semconv.LANGGRAPH_CHECKPOINT_ID]: one.call.attributes[semconv.LANGGRAPH_NEXT]
        for one in observer.exchanges
        if one.call.name == "langgraph"
    }
    theirs = {}
    for found in saver.list(AT):
        state = graph.get_state(found.config)
        theirs[found.checkpoint["id"]] = sorted(set(state.next))
    assert said == theirs
    assert {name for following in theirs.values() for name in following} >= {"late", "each", "joined", "__start__"}


@contextmanager
def forking() -> Iterator[MemoryObserver]:
    """Run the enclosed code as a fork beyond its step."""
    observer = MemoryObserver()
    session = Session(run_id=b"f" * 16, root=Place.root("agent"), mode=FORK, observer=observer, redaction=Redaction())
    session.open()
    try:
        with session.entered():
            yield observer
    finally:
        session.close()


def test_a_fork_leaves_a_lasting_saver_alone():
    """It begins with what the service's saver holds, sees what it saves itself, and writes none of it there."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        graph = line(saver)
        graph.invoke({"log": ["q"]}, AT)
        before = [one.checkpoint["id"] for one in saver.list(None)]
        with forking():
            assert graph.get_state(AT).values == {"log": ["q", "a", "b", "c"]}
            assert graph.invoke({"log": ["more"]}, AT) == {"log": ["q", "a", "b", "c", "more", "a", "b", "c"]}
            seen = [one.values["log"][-1:] for one in graph.get_state_history(AT) if one.values]
            assert seen[0] == ["c"]
            assert len(seen) == 10
            saver.delete_thread("t")
        assert [one.checkpoint["id"] for one in saver.list(None)] == before
        assert saver.get_tuple(AT).checkpoint["channel_values"]["log"] == ["q", "a", "b", "c"]


def recorded_run(observer):
    """What a memory session recorded, as a run that can be loaded: a span for each exchange."""
    spans, payloads = [], {}
    for step, one in enumerate(observer.exchanges, start=1):
        for payload in (one.call.request, one.outcome.result):
            if payload is not None:
                payloads[payload.digest] = payload.data
        node = Node(
            b"r" * 16, one.call.kind, one.call.name, ("run:agent#0", f"{one.call.kind.value}:{one.call.name}#{step}"),
            sequence=step, step=step, call=one.call, outcome=one.outcome,
        )  # fmt: skip
        span = Span(b"t" * 16, step.to_bytes(8, "big"), one.call.name, step, step, attributes=one.call.attributes)
        spans.append(RecordedSpan(span, node))
    return RecordedRun(Run(b"r" * 16, b"t" * 16, b"s" * 8, "agent", 1), spans, payloads.get)


def test_sends_and_joins_are_restored():
    """A graph goes on between a join and the nodes that were sent for, with what each was sent."""
    done = []

    def graph_of(saver):
        graph = branching(saver)
        done.clear()
        return graph

    saver = InMemorySaver()
    with recording() as observer:
        whole = graph_of(saver).invoke({"log": []}, AT)
    recorded = recorded_run(observer)
    place = next(one for one in ours.checkpoints(recorded) if "each" in (one.next or ()))
    fresh = InMemorySaver()
    config = ours.restore(recorded, place.step, fresh)
    restored = graph_of(fresh)
    assert sorted(task.name for task in restored.get_state(config).tasks) == ["each", "each", "late"]
    assert restored.invoke(None, config) == whole


def test_parallel_nodes_that_were_done_are_not_run_again():
    """One of three failed: restored with the writes of the other two, only the one that failed is run."""
    done, fails, watched = [], [True], []

    def noted(name):
        def run(state):
            if name == "right" and fails:
                until = time.monotonic() + 20  # the graph saves what the others wrote in threads of its own
                while time.monotonic() < until and saved(watched[0]) < 2:
                    time.sleep(0.005)
                raise ValueError("not now")
            done.append(name)
            return {"log": [name]}

        return run

    def graph_of(saver):
        graph = StateGraph(Log)
        for name in ("left", "middle", "right"):
            graph.add_node(name, noted(name))
            graph.add_edge(START, name)
        return graph.compile(checkpointer=saver)

    def saved(observer):
        return sum(one.call.name == "langgraph.writes" for one in list(observer.exchanges))

    with recording() as observer, pytest.raises(ValueError, match="not now"):
        watched.append(observer)
        graph_of(InMemorySaver()).invoke({"log": ["q"]}, AT)
    assert sorted(done) == ["left", "middle"]
    recorded = recorded_run(observer)
    last = max(item.node.step for item in recorded.spans if item.node.name == "langgraph.writes")
    done.clear()
    fails.clear()
    fresh = InMemorySaver()
    config = ours.restore(recorded, last, fresh)
    assert sorted(graph_of(fresh).invoke(None, config)["log"]) == ["left", "middle", "q", "right"]
    assert done == ["right"]


def asking(saver, sent):
    """A graph whose node sends a mail, then asks a person."""

    def mail(state):
        sent.append("mail")
        return {"log": [interrupt({"question": "really?"})]}

    graph = StateGraph(Log)
    graph.add_node("mail", mail)
    graph.add_edge(START, "mail")
    return graph.compile(checkpointer=saver)


def test_a_question_to_a_person_is_restored():
    """The graph that stopped to ask is restored with its question, and goes on with the answer."""
    with recording() as observer:
        stopped = asking(InMemorySaver(), []).invoke({"log": []}, AT)
    recorded = recorded_run(observer)
    last = max(item.node.step for item in recorded.spans if item.node.name == "langgraph.writes")
    fresh, sent = InMemorySaver(), []
    config = ours.restore(recorded, last, fresh)
    graph = asking(fresh, sent)
    (question,) = graph.get_state(config).interrupts
    assert question == stopped["__interrupt__"][0]
    assert graph.invoke(Command(resume="yes"), {"configurable": {"thread_id": "t"}}) == {"log": ["yes"]}


def test_a_graph_inside_a_graph_goes_on_where_it_was():
    """A checkpoint of an inner graph is restored with those of the graph around it."""
    done = []

    def noted(name):
        def run(state):
            done.append(name)
            return {"log": [name]}

        return run

    def graph_of(saver):
        inner = StateGraph(Log)
        inner.add_sequence([(name, noted(name)) for name in ("one", "two", "three")])
        inner.add_edge(START, "one")
        outer = StateGraph(Log)
        outer.add_sequence([("before", noted("before")), ("inner", inner.compile()), ("after", noted("after"))])
        outer.add_edge(START, "before")
        return outer.compile(checkpointer=saver)

    with recording() as observer:
        whole = graph_of(InMemorySaver()).invoke({"log": []}, AT)
    recorded = recorded_run(observer)
    place = next(one for one in ours.checkpoints(recorded) if one.checkpoint_ns and one.next == ("three",))
    done.clear()
    fresh = InMemorySaver()
    config = ours.restore(recorded, place.step, fresh)
    assert graph_of(fresh).invoke(None, config) == whole
    assert done == ["three", "after"]


def test_a_state_that_was_masked_is_not_restored():
    """A secret in the state is masked in the recording, which makes the checkpoint no place to go on from."""
    with recording() as observer:
        line(InMemorySaver()).invoke({"log": [{"password": "hunter2"}]}, AT)
    recorded = recorded_run(observer)
    place = ours.checkpoints(recorded)[1]
    assert not place.resumable
    with pytest.raises(CannotJudge, match="something in the state was masked"):
        ours.restore(recorded, place.step, InMemorySaver())


def test_two_recordings_of_one_graph_do_not_differ():
    """LangGraph's ids, versions and times are another's each time: counted as volatile, never a change."""
    runs = []
    for _ in range(2):
        with recording() as observer:
            line(InMemorySaver()).invoke({"log": ["q"]}, AT, durability="sync")
        runs.append(recorded_run(observer))
    comparer = PairComparer(*map(RunSubstance, runs))
    first, second = (sorted(run.spans, key=lambda item: (item.node.name, item.node.call.request.data)) for run in runs)
    assert [comparer.compare(one, other) for one, other in zip(first, second, strict=True)] == [[]] * len(first)
    assert comparer.volatile["what lies beside a checkpoint's state"] == 9


def test_a_saver_that_holds_the_thread_is_refused():
    """Where nodes were under way the graph goes on from the latest checkpoint, which must be the restored one."""
    saver = InMemorySaver()
    with recording() as observer:
        line(saver).invoke({"log": []}, AT)
    recorded = recorded_run(observer)
    last = max(item.node.step for item in recorded.spans if item.node.name == "langgraph.writes")
    with pytest.raises(ConfigurationError, match="the saver holds a thread 't' already: restore into an empty one"):
        ours.restore(recorded, last, saver)


def test_without_langgraph_the_extra_is_named():
    """The module loads without it; what needs it says which extra to install."""
    code = (
        "import sys; sys.modules['langgraph'] = None\n"
        "from otel_agent_replay.langgraph import restore\n"
        "restore('0198', 1, None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigurationError" in done.stderr
    assert "otel-agent-replay[langgraph]" in done.stderr


class Odd:
    """Holds what no codec can take."""

    def __init__(self):
        self.socket = object()


def test_a_state_that_is_not_kept_whole_is_not_restored():
    """The reason is in the checkpoint, and the error names what was lost."""
    with recording() as observer:
        saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True))
        line(saver).invoke({"log": [Odd()]}, AT)
    recorded = recorded_run(observer)
    place = ours.checkpoints(recorded)[1]
    assert place.unsafe_reasons == ("the state could not be kept whole",)
    with pytest.raises(CannotJudge, match="Odd"):
        ours.restore(recorded, place.step, InMemorySaver())


# --- forks that are entered at a checkpoint of LangGraph's ---


@replay.tool(side_effect="read")
def look(name):
    return f"{name} seen"


def looking(done, durability):
    """A graph of four nodes in a row, the third of them two side by side; `done` are those that ran."""

    def noted(name):
        def run(state):
            done.append(name)
            return {"log": [look(name)]}

        return run

    def graph_of(saver):
        graph = StateGraph(Log)
        for name in ("one", "two", "left", "right", "four"):
            graph.add_node(name, noted(name))
        graph.add_edge(START, "one")
        graph.add_edge("one", "two")
        for name in ("left", "right"):
            graph.add_edge("two", name)
        graph.add_edge(["left", "right"], "four")
        return graph.compile(checkpointer=saver)

    async def run(kind, saver, given, config):
        graph = graph_of(saver)
        if kind.is_async:
            return (await graph.ainvoke(given, config, durability=durability))["log"]
        return graph.invoke(given, config, durability=durability)["log"]

    return run


def entered_agent(kind, run, opened):
    """An agent around such a graph that can be entered where the graph saved; `opened` opens its saver."""

    async def again(checkpoint, order):
        async with opened() as saver:
            restored = ours.arestore if kind.is_async else _restore
            return await run(kind, saver, None, await restored(checkpoint.run, checkpoint.step, saver))

    @replay.agent(name="graph", enter=again)
    async def agent(order):
        async with opened() as saver:
            return await run(kind, saver, {"log": [order]}, AT)

    return lambda order: asyncio.run(agent(order))


async def _restore(run, at, saver):
    return ours.restore(run, at, saver)


def opener(kind, path):
    """Return what opens a saver of that kind: a new one in memory, the same database each time."""

    @asynccontextmanager
    async def opened():
        if not kind.lasting:
            yield InMemorySaver()
        elif kind.is_async:
            async with AsyncSqliteSaver.from_conn_string(path) as saver:
                yield saver
        else:
            with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
                yield SqliteSaver(connection)

    return opened


@pytest.mark.parametrize(
    ("kind", "durability"),
    [
        pytest.param(*saver.values, durability, id=f"{saver.id}-{durability}",
                     marks=[] if (number + place) % 2 else pytest.mark.soak)
        for number, saver in enumerate(SAVERS)
        for place, durability in enumerate(("sync", "async"))
    ],
)  # fmt: skip
def test_a_fork_is_entered_at_the_state_before_it(kind, durability, runtime, tmp_path):
    """Forked at every step: the graph goes on from the last state saved before it, and is the same fork all the same.

    Nodes before that state do not run, and a lasting saver is as it was.
    """
    done = []
    agent = entered_agent(kind, looking(done, durability), opener(kind, str(tmp_path / "states.sqlite")))
    origin = recorded(runtime, agent)
    assert len(done) == 5
    before = held(kind, tmp_path)
    steps = [node for node in origin.nodes if node.step]
    points = {one.step: one for one in ours.checkpoints(origin)}
    entered = set()
    for at in range(1, len(steps) + 2):
        done.clear()
        fork, report, error = forked(runtime, origin, ForkPlan.from_arguments(at, read=str), agent)
        assert error is None, (at, report.reason)
        assert report.status is ContinuedStatus.FINISHED, (at, report.reason)
        hows = {step.step: str(step.how) for step in report.steps}
        if report.entered == "jump":
            point = points[report.entered_step]
            assert report.entered_id == point.checkpoint_id
            ran = {"__start__": 5, "one": 5, "two": 4, "left": 3, "four": 1}[point.next[0]]
            assert len(done) == ran
            entered.add(point.next[0])
            skipped = [step for step, how in hows.items() if how == "skipped"]
            assert report.entered_step in skipped
            assert len(skipped) >= point.graph_step + 1
        assert {how for step, how in hows.items() if step < at} <= {"skipped", "replayed"}, at
        assert len({node.path for node in fork.nodes}) == len(fork.nodes)
        late = saved_late(origin, at, report)
        assert places(fork.nodes) == places(node for node in origin.nodes if node not in late)
        look_ups = [node for node in fork.nodes if node.name == "look"]
        assert {node.source for node in look_ups if node.step >= at} <= {AnswerSource.TAPE}
        assert sorted(fork.payload(node.outcome.result.digest) for node in look_ups) == sorted(
            origin.payload(node.outcome.result.digest) for node in steps if node.name == "look"
        )
    assert {"one", "two", "left", "four"} <= entered
    assert held(kind, tmp_path) == before


def places(nodes):
    """Return how often each place occurs, without its number among its like."""
    return Counter((*node.path[:-1], node.path[-1].partition("#")[0]) for node in nodes)


def saved_late(origin, at, report):
    """What was saved beside the code from step `at` on, but belongs to what lies before the state that was entered.

    LangGraph keeps a node's writes in the background: whether before or after the state that they led to is by chance.
    """
    if report.entered != "jump":
        return []
    past = entrance_before(origin, at).past
    late = [node for node in origin.nodes if node.step and node.step >= at and past.has(node)]
    assert {node.name for node in late} <= {"langgraph.writes"}
    return late


def held(kind, tmp_path):
    """Return what the lasting saver holds."""
    if not kind.lasting:
        return None
    with closing(sqlite3.connect(tmp_path / "states.sqlite")) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
            for table in ("checkpoints", "writes")
        ]


def test_without_its_reads_of_the_clock_a_state_is_placed_by_time(runtime, tmp_path):
    """Where LangGraph's reads are not on record, times say the same of what was over; in a replay they say nothing."""
    kind = SAVERS[0].values[0]
    agent = entered_agent(kind, looking([], "sync"), opener(kind, ""))
    origin = recorded(runtime, agent)
    without = replace(
        origin,
        spans=[
            item if item.node is None else replace(item, node=replace(item.node, reads=())) for item in origin.spans
        ],
    )
    last = max(node.step for node in origin.nodes if node.step)
    for step in range(2, last + 1):
        by_read, by_time = entrance_before(origin, step), entrance_before(without, step)
        if isinstance(by_read, str):
            assert by_time == by_read
            continue
        assert by_time.checkpoint.step == by_read.checkpoint.step
        assert [by_time.past.has(node) for node in origin.nodes] == [by_read.past.has(node) for node in origin.nodes]
    replayed = replace(without, run=replace(origin.run, replay=True))
    last_look = max(node.step for node in origin.nodes if node.name == "look")  # the state of the end is no entrance
    assert "whose clock was another one" in entrance_before(replayed, last_look)
    assert isinstance(entrance_before(replace(origin, run=replayed.run), last_look), Entrance)


@pytest.mark.parametrize("kind", SAVERS)
def test_a_fork_goes_on_with_what_its_own_graph_saved(kind, runtime, tmp_path):
    """A second turn of the thread begins with the fork's first one, not with what the recording had saved by then."""
    opened = opener(kind, str(tmp_path / "states.sqlite"))
    run = looking([], "async")

    @replay.agent(name="talk")
    async def talk(order):
        async with opened() as saver:
            await run(kind, saver, {"log": [order]}, AT)
            return await run(kind, saver, {"log": ["more"]}, AT)

    def agent(order):
        return asyncio.run(talk(order))

    origin = recorded(runtime, agent)
    first = next(node.step for node in origin.nodes if node.name == "look")
    plan = ForkPlan.from_arguments(first, results=[f'{first}="edited"'], read=str)
    fork, report, error = forked(runtime, origin, plan, agent)
    assert error is None
    output = next(node.outcome.result.digest for node in fork.nodes if node.kind is Kind.RUN)
    log = json.loads(fork.payload(output))
    assert log[:2] == ["17", "edited"]
    assert log[6] == "more"
    assert len(log) == 12
