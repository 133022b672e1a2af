"""Agents that depend on the day, on chance and on their environment replay equal on another day, unchanged."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.model import Kind
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import echo
from tests.support.agents import Script, assert_same, nodes_of

pytest.importorskip("openai")

SOURCE = """
import asyncio, datetime, json, os, random, secrets, sys, time, uuid
from datetime import datetime as moment
from os import getenv
from random import choice
from uuid import uuid4
import openai
import otel_agent_replay as replay

TOPICS = {"orders", "refunds", "parcels", "weather", "stock", "returns"}

@replay.agent
async def daily():
    started = time.monotonic()
    await asyncio.sleep(0.3)
    time.sleep(0.3)
    facts = {
        "now": f"{moment.now():%A %d %B %Y %H:%M:%S.%f}",
        "today": str(datetime.date.today()),
        "time": [time.time(), time.time_ns(), time.perf_counter()],
        "ids": [str(uuid4()), str(uuid.uuid1()), secrets.token_hex(8), os.urandom(4).hex()],
        "draws": [random.random(), choice("abcdef"), random.Random().random(), random.gauss(0, 1)],
        "region": [os.environ["REGION"], getenv("REGION"), os.environ.get("NOT_SET", "not"), "REGION" in os.environ],
        "topics": list(TOPICS),
        "took a while": time.monotonic() - started >= 0.6,
    }
    async with openai.AsyncOpenAI() as client:
        messages = [{"role": "system", "content": json.dumps(facts)}, {"role": "user", "content": "what day is it?"}]
        answer = await client.chat.completions.create(model="m", messages=messages, user=str(uuid4()))
    return [facts, answer.choices[0].message.content]

result = asyncio.run(daily())
with open(sys.argv[1], "w") as file:
    json.dump(result, file)
"""


def test_a_run_replays_equal_on_another_day(tmp_path):
    """Scenarios 21, 24 and 25: clock, draws, ids, sleeps, variables and the order of sets are those of the recording.

    The replay runs later, with another region, another time zone, another hash seed and other model settings.
    """
    with ScriptedProvider(echo) as server:
        script = Script(tmp_path, SOURCE, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="sk-none", REGION="north")
        run = script.record("live.json")["daily"]
    verdict = script.replay(
        run,
        "replayed.json",
        environment={
            "REGION": "south",
            "NOT_SET": "set by now",
            "TZ": "Pacific/Kiritimati",
            "PYTHONHASHSEED": "99",
            "OPENAI_BASE_URL": "http://elsewhere.invalid/v1",
            "OPENAI_API_KEY": "sk-another",
        },
    )
    assert_same(verdict)
    live, replayed = (json.loads((tmp_path / name).read_text()) for name in ("live.json", "replayed.json"))
    assert replayed == live
    assert live[0]["region"] == ["north", "north", "not", True]
    assert live[0]["took a while"] is True
    assert len(nodes_of(run, Kind.SLEEP)) == 2
