"""Agents that depend on the day, on chance and on their environment replay equal on another day, unchanged."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.model import Kind
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import echo
from tests.support.agents import Script, assert_same, nodes_of

pytest.importorskip("numpy")
pytest.importorskip("openai")

SOURCE = """
import asyncio, datetime, json, os, random, secrets, sys, time, uuid
from datetime import datetime as moment
from os import getenv
from random import choice
from uuid import uuid4
import numpy
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
        "numpy": [numpy.random.random(), numpy.random.default_rng().random()],
        "region": [os.environ["REGION"], getenv("REGION"), os.environ.get("NOT_SET", "not"), "REGION" in os.environ],
        "topics": list(TOPICS),
        "took a while": time.monotonic() - started >= 0.6,
    }
    async with openai.AsyncOpenAI() as client:
        messages = [{"role": "system", "content": json.dumps(facts)}, {"role": "user", "content": "what day is it?"}]
        answer = await client.chat.completions.create(model="m", messages=messages, user=str(uuid4()))
    return [facts, answer.choices[0].message.content]

class OwnClock(asyncio.SelectorEventLoop):
    # A loop with a clock of its own, as uvloop has.

    def time(self):
        return super().time() + 1000.0

loop = OwnClock()
began = loop.time()
result = loop.run_until_complete(daily())
loop.close()
with open(sys.argv[1], "w") as file:
    json.dump([result, began, loop.time()], file)
"""


class Lived:
    """Recorded, then replayed later, with another region, time zone, hash seed and other model settings."""

    def __init__(self, folder):
        with ScriptedProvider(echo) as server:
            script = Script(
                folder, SOURCE, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="sk-none", REGION="north"
            )
            self.run = script.record("live.json")["daily"]
        self.verdict = script.replay(
            self.run,
            "replayed.json",
            allow_write=[folder],
            environment={
                "REGION": "south",
                "NOT_SET": "set by now",
                "TZ": "Pacific/Kiritimati",
                "PYTHONHASHSEED": "99",
                "OPENAI_BASE_URL": "http://elsewhere.invalid/v1",
                "OPENAI_API_KEY": "sk-another",
            },
        )
        self.live = json.loads((folder / "live.json").read_text())
        self.replayed = json.loads((folder / "replayed.json").read_text())


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return Lived(tmp_path_factory.mktemp("day"))


def test_a_run_replays_equal_on_another_day(lived):
    """Scenarios 21, 24 and 25: clock, draws, ids, sleeps, variables and the order of sets are the recorded ones."""
    assert_same(lived.verdict)
    assert lived.replayed[0] == lived.live[0]
    facts = lived.live[0][0]
    assert facts["region"] == ["north", "north", "not", True]
    assert facts["took a while"] is True
    assert len(nodes_of(lived.run, Kind.SLEEP)) == 2


def test_the_loops_own_clock_is_not_faked(lived):
    """Scenarios 21 and 23: the event loop's clock runs on in a replay, and a recorded sleep takes no time there."""
    _, began, ended = lived.live
    assert ended - began >= 0.6
    _, began_again, ended_again = lived.replayed
    assert began_again > ended
    assert ended_again - began_again > 0
