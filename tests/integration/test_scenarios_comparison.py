"""Runs of the same agent recorded in different processes, compared."""

from __future__ import annotations

import pytest

from otel_agent_replay.compare import Asked, Cause, Changed, Reply, Verdict, compare
from otel_agent_replay.compare.changes import Field
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream
from tests.support.agents import Script

pytest.importorskip("openai")

SOURCE = """
import asyncio, random, sys, time
import openai
import otel_agent_replay as replay

PRICE = int(sys.argv[1])

@replay.tool(side_effect="read")
async def price(item):
    await asyncio.sleep(len(item) / 1000)
    return {"item": item, "cents": PRICE if item == "lamp" else 100}

@replay.decision
def route(total):
    return "cheap" if total < 10_000 else "dear"

@replay.agent(version="7")
async def shop(items):
    time.time(), random.random()  # reads that change with every run and decide nothing
    async with openai.AsyncOpenAI() as client:
        asked = [{"role": "user", "content": "what does it cost?"}]
        stream = await client.chat.completions.create(model="m", messages=asked, stream=True)
        said = "".join([event.choices[0].delta.content or "" async for event in stream])
        with replay.step("prices"):
            found = await asyncio.gather(*[price(item) for item in items])
        total = sum(one["cents"] for one in found)
        asked.append({"role": "user", "content": f"{said}: it costs {total}, {route(total)}"})
        answer = await client.chat.completions.create(model="m", messages=asked)
    return answer.choices[0].message.content

asyncio.run(shop(["lamp", "chair", "table"]))
"""


def serve(request):
    if request.json.get("stream"):
        return openai_chat_stream(["let ", "me ", "see"])
    return openai_chat(f"thank you for {request.json['messages'][-1]['content']}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return three recordings: two with nothing changed, one with the price of the lamp changed."""
    with ScriptedProvider(serve) as server:
        script = Script(
            tmp_path_factory.mktemp("compared"), SOURCE, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="sk-none"
        )
        return [script.record(cents)["shop"] for cents in ("4900", "4900", "5900")]


def test_the_same_agent_recorded_twice_is_identical(runs):
    """Two recordings with nothing changed differ in ids, times, draws and ports' timing, and in nothing that counts."""
    found = compare(runs[0], runs[1])
    assert found.verdict in {Verdict.IDENTICAL, Verdict.REORDERED}, found.sentence
    assert list(found.changes) == []
    assert found.departure is None


def test_one_changed_tool_result_is_named_first(runs):
    """With one tool's result changed the first departure is exactly that step, and its cause the tool's answer."""
    found = compare(runs[0], runs[2])
    assert found.verdict is Verdict.DIFFERENT
    first = found.changes[0]
    assert isinstance(first, Changed)
    assert first.a.path[-1].startswith("tool:price")
    (field,) = first.fields
    assert field.field is Field.RESULT
    assert [(one.before, one.after) for one in field.differences] == [(4900, 5900)]
    assert found.departure.cause is Cause.ANSWER
    changed = {change.a.path[-1].partition("#")[0] for change in found.changes if isinstance(change, Changed)}
    assert changed == {"tool:price", "decision:route", "model:chat", "run:shop"}
    replies = {question.asked: question.reply for question in found.questions}
    assert replies[Asked.TOOL_RESULTS] is replies[Asked.FINAL_ANSWER] is Reply.YES
    assert replies[Asked.TOOL_ARGUMENTS] is replies[Asked.DECISIONS] is replies[Asked.VERSIONS] is Reply.NO
    assert not any("chair" in str(change) or "table" in str(change) for change in found.changes)
