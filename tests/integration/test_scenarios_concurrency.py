"""Concurrent, nested, generated and interrupted agents with the real openai client: recorded once, replayed once.

One script holds all agents, because a child with a model client takes seconds to start; each test looks at the run of
its own agent.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from otel_agent_replay.model import Kind, OutcomeStatus, RunStatus
from otel_agent_replay.replay.verdict import VerdictStatus
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import echo, openai_chat, openai_chat_stream
from tests.support.agents import Script, assert_same, nodes_of

pytest.importorskip("openai")

SOURCE = """
import asyncio, json, sys, threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
import openai
import otel_agent_replay as replay
replay.configure()

REVERSED = "reversed" in sys.argv
client = openai.OpenAI(max_retries=0)

def ask(text):
    answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content

def stream(text):
    messages = [{"role": "user", "content": text}]
    for event in client.chat.completions.create(model="m", messages=messages, stream=True):
        yield event.choices[0].delta.content or ""

async def ask_in(one, text):
    answer = await one.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content

@replay.tool(side_effect="read")
def look_up(owner, number):
    return f"{owner} {number}"

@replay.agent
async def gathered():
    async with openai.AsyncOpenAI(max_retries=0) as one:
        prompts = [f"question {number}" for number in range(3)]
        if REVERSED:
            prompts.reverse()
        answers = await asyncio.gather(*[ask_in(one, prompt) for prompt in prompts])
        return dict(sorted(zip(prompts, answers)))

@replay.agent
async def identical():
    async with openai.AsyncOpenAI(max_retries=0) as one:
        first = await asyncio.gather(*[ask_in(one, "again") for _ in range(3)])
        return [*first, *[await ask_in(one, "again") for _ in range(3)]]

@replay.agent
def pooled():
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(ask, f"pooled {number}") for number in range(9)]
        return [future.result() for future in as_completed(futures)]

@replay.agent
def inner(number):
    return look_up("inner", number)

@replay.agent
def outer():
    return [look_up("outer", 1), inner(1), look_up("outer", 2), inner(2)]

both_are_in = threading.Barrier(2)

@replay.agent(thread_id="owner")
def side_by_side(owner):
    found = [look_up(owner, 0)]
    both_are_in.wait(10)
    found += [look_up(owner, number) for number in (1, 2)]
    both_are_in.wait(10)
    return found

class Desk:
    def __init__(self, name):
        self.name = name

    @replay.tool(side_effect="read")
    def price(self, item):
        return f"{self.name}: {item}"

    @replay.tool(side_effect="read")
    async def stock(self, item):
        return len(item)

    @replay.agent(name="method")
    def answer(self, item):
        return [self.price(item), asyncio.run(self.stock(item)), self.of_class(item), self.of_none(item)]

    @classmethod
    @replay.tool(side_effect="read")
    def of_class(cls, item):
        return f"{cls.__name__} {item}"

    @staticmethod
    @replay.tool(side_effect="read")
    def of_none(item):
        return item.upper()

@replay.agent
async def told():
    async with openai.AsyncOpenAI(max_retries=0) as one:
        messages = [{"role": "user", "content": "tell me more"}]
        async for event in await one.chat.completions.create(model="m", messages=messages, stream=True):
            yield event.choices[0].delta.content or ""

@replay.tool(side_effect="read")
async def pages(book):
    for number in range(5):
        await asyncio.sleep(0.001)
        yield f"page {number} of {book}"

@replay.agent
async def dropped():
    async for page in pages("accounts"):
        yield look_up(page, 1)

@replay.agent
def closed_half_way():
    for number, piece in enumerate(stream("a long story in many words")):
        yield look_up(piece, number)

@replay.agent
async def finished_elsewhere():
    for number in range(3):
        with replay.step(f"part {number}"):
            await asyncio.sleep(0.001)
            found = look_up("elsewhere", number)
        yield found

@replay.agent
def broken_stream():
    pieces = []
    try:
        for piece in stream("break off"):
            pieces.append(piece)
    except Exception as error:
        return [type(error).__module__, type(error).__name__, "".join(pieces), look_up("after", len(pieces))]
    return pieces

@replay.agent
def consumer_fails():
    for piece in stream("a long story in many words"):
        raise ValueError(f"I do not like {piece!r}")

async def finish_in_another_task():
    agent = finished_elsewhere()
    found = [await asyncio.create_task(agent.__anext__())]
    async def rest():
        return [item async for item in agent]
    found += await asyncio.create_task(rest())
    left = finished_elsewhere()
    found.append(await asyncio.create_task(left.__anext__()))
    await asyncio.create_task(left.aclose())
    return found

async def tell():
    return [piece async for piece in told()]

async def take_one_and_go():
    async for page in dropped():
        return page

def close_half_way():
    agent = closed_half_way()
    found = [next(agent), next(agent)]
    agent.close()
    return found

def run_side_by_side():
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(side_by_side, ["left", "right"]))

def fail():
    try:
        consumer_fails()
    except ValueError as error:
        return str(error)

results = {
    "gathered": asyncio.run(gathered()),
    "identical": asyncio.run(identical()),
    "pooled": pooled(),
    "outer": outer(),
    "side_by_side": run_side_by_side(),
    "method": Desk("desk").answer("lamp"),
    "told": asyncio.run(tell()),
    "dropped": asyncio.run(take_one_and_go()),
    "closed_half_way": close_half_way(),
    "finished_elsewhere": asyncio.run(finish_in_another_task()),
    "broken_stream": broken_stream(),
    "consumer_fails": fail(),
}
with open(sys.argv[1], "w") as file:
    json.dump(results, file)
"""


def model_server():
    """Answer "again" with a running number, cut one stream off, echo the rest; "pooled" prompts answer in reverse."""
    times = itertools.count(1)

    def script(request):
        asked = request.json["messages"][-1]["content"]
        if asked == "again":
            return openai_chat(f"answer {next(times)}")
        if asked == "break off":
            body = openai_chat_stream(["one ", "two ", "three"]).body
            return Reply.of_events(body[: body.index(b"three")], ending="cut")
        return echo(request)

    return ScriptedProvider(script)


class Lived:
    """The script recorded, then replayed with its prompts gathered in reverse order and no server."""

    def __init__(self, folder):
        with model_server() as server:
            self.script = Script(folder, SOURCE, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="sk-none")
            self.ended = self.script.run("live.json")
            self.calls = len(server.seen)
        self.script.seal()
        runs = self.script.runs()
        self.all = [self.script.load(run) for run in runs]
        self.runs = {one.run.agent: one for one in self.all}
        self.verdict = self.script.replay(self.runs["gathered"], "replayed.json", "reversed", allow_write=[folder])
        self.statuses = [(one.agent, one.status) for one in self.verdict.others]
        self.folder = folder


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return Lived(tmp_path_factory.mktemp("concurrency"))


def test_every_agent_replays_the_same_without_a_server(lived):
    """The whole script gives the same results and every run in it is judged the same."""
    assert_same(lived.verdict)
    assert (lived.folder / "replayed.json").read_text() == (lived.folder / "live.json").read_text()
    assert len(lived.verdict.others) == len(lived.all) - 1


def test_nothing_is_complained_of(lived):
    """Neither a context that could not be detached nor any other complaint is logged, recording or closing."""
    assert lived.ended.stderr == ""


def test_every_model_call_is_one_exchange(lived):
    """What the server saw and what was recorded are the same number of calls: none twice, none missed."""
    assert sum(len(nodes_of(one, Kind.MODEL)) for one in lived.all) == lived.calls


def test_prompts_gathered_in_reverse_order_get_their_own_answers(lived):
    """Scenario 9: a replay that starts its gathered prompts in another order still hands each its own answer."""
    assert len(nodes_of(lived.runs["gathered"], Kind.MODEL)) == 3
    assert lived.verdict.output_same is True


def test_identical_prompts_get_the_first_second_and_third_answer(lived):
    """Scenario 10: six times the same prompt, in parallel and in sequence, are six exchanges with six answers."""
    nodes = nodes_of(lived.runs["identical"], Kind.MODEL)
    assert [node.occurrence for node in nodes] == list(range(6))
    assert len({node.call.digest for node in nodes}) == 1
    assert len({node.outcome.result.digest for node in nodes}) == 6


def test_a_thread_pool_is_recorded_whole(lived):
    """Scenario 12: every call of a pool's workers is in the run, under the agent, and futures complete as recorded.

    The server answers all at once, so that not the answers' order but the threads' own work decides who is done first.
    """
    nodes = nodes_of(lived.runs["pooled"], Kind.MODEL)
    assert {node.parent_path for node in nodes} == {("run:pooled#0",)}
    assert len(nodes) == 9
    assert [status for agent, status in lived.statuses if agent == "pooled"] == [VerdictStatus.SAME]


def test_nested_runs_do_not_mix(lived):
    """An agent that calls another agent keeps its own calls, and the other has its own runs."""
    assert [node.occurrence for node in nodes_of(lived.runs["outer"], Kind.TOOL)] == [0, 1]
    inner = [one for one in lived.all if one.run.agent == "inner"]
    assert [len(nodes_of(one, Kind.TOOL)) for one in inner] == [1, 1]
    assert {one.run.trace_id for one in inner} == {lived.runs["outer"].run.trace_id}


def test_runs_side_by_side_do_not_mix(lived):
    """Two runs at the same time in two threads hold their own owner's calls only."""
    beside = [one for one in lived.all if one.run.agent == "side_by_side"]
    assert {one.run.thread_id for one in beside} == {"left", "right"}
    for one in beside:
        requests = [one.payload(node.call.request.digest).decode() for node in nodes_of(one, Kind.TOOL)]
        assert len(requests) == 3
        assert all(one.run.thread_id in request for request in requests)


def test_methods_are_recorded_without_their_instance(lived):
    """A method's, class method's and static method's arguments are recorded; the object itself is not among them."""
    method = lived.runs["method"]
    nodes = nodes_of(method, Kind.TOOL)
    assert [node.name for node in nodes] == ["price", "stock", "of_class", "of_none"]
    assert {method.payload(node.call.request.digest) for node in nodes} == {b'{"item":"lamp"}'}


def test_an_async_generator_is_a_run_with_its_stream(lived):
    """An agent that yields as the model streams is one run with one model exchange, and ends well."""
    told = lived.runs["told"]
    assert told.run.status is RunStatus.OK
    (node,) = nodes_of(told, Kind.MODEL)
    assert len(node.outcome.chunks) > 3
    assert not node.outcome.closed_early


def test_a_generator_closed_half_way_keeps_what_was_taken(lived):
    """A consumer that closes a generator agent ends its run, with the stream under it closed early."""
    closed = lived.runs["closed_half_way"]
    assert closed.run.status is RunStatus.OK
    assert len(nodes_of(closed, Kind.TOOL)) == 2
    (node,) = nodes_of(closed, Kind.MODEL)
    assert node.outcome.closed_early


def test_an_async_generator_that_is_dropped_ends_with_its_loop(lived):
    """A consumer that leaves an async generator agent unclosed has its run ended by the loop, as closed."""
    dropped = lived.runs["dropped"]
    assert dropped.run.status is RunStatus.OK
    pages, look_up = nodes_of(dropped, Kind.TOOL)
    assert pages.outcome.closed_early
    assert look_up.outcome.status is OutcomeStatus.OK


def test_a_generator_finished_in_another_task_is_one_run(lived):
    """A generator agent begun in one task and finished, or closed, in another is one run with its steps in it."""
    first, second = (one for one in lived.all if one.run.agent == "finished_elsewhere")
    assert Counter(node.kind for node in first.nodes)[Kind.TOOL] == 3
    assert Counter(node.kind for node in second.nodes)[Kind.TOOL] == 1
    assert [one.run.status for one in (first, second)] == [RunStatus.OK, RunStatus.OK]


def test_a_stream_that_breaks_replays_its_pieces_and_its_error(lived):
    """A stream cut in the middle gives the same pieces, then an error of the same class, and the agent goes on."""
    broken = lived.runs["broken_stream"]
    (node,) = nodes_of(broken, Kind.MODEL)
    assert node.outcome.status is OutcomeStatus.ERROR
    assert node.outcome.failure.phase.value == "body"
    assert len(nodes_of(broken, Kind.TOOL)) == 1


def test_an_agent_that_fails_in_the_middle_of_a_stream_is_recorded_as_failed(lived):
    """An exception of the agent's own in mid-stream ends run and exchange; its replay raises it again."""
    failed = lived.runs["consumer_fails"]
    assert failed.run.status is RunStatus.ERROR
    (status,) = [one.status for one in lived.verdict.others if one.agent == "consumer_fails"]
    assert status is VerdictStatus.SAME
