"""Two hundred recordings of one deterministic agent under random scheduling: nothing may be said to differ."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.catalog import Lake
from tests.support.agents import Script

pytestmark = pytest.mark.soak

RUNS = 200

SOURCE = """
import asyncio, random, sys
import otel_agent_replay as replay

scheduler = random.Random(int(sys.argv[1]))


class Shuffled(asyncio.SelectorEventLoop):
    def _run_once(self):
        ready = list(self._ready)
        scheduler.shuffle(ready)
        self._ready.clear()
        self._ready.extend(ready)
        super()._run_once()


class Turn:
    def __await__(self):
        yield


async def busy(times):
    for _ in range(times):
        await Turn()


@replay.tool(side_effect="read")
async def look(item):
    await busy(len(item) % 4)
    return {"item": item, "found": len(item)}


@replay.tool(side_effect="read")
async def price(item):
    await busy(3)
    return 7 * len(item)


@replay.tool(side_effect="write")
async def order(items, total):
    return f"ordered {len(items)} for {total}"


async def both(item):
    found = await look(item)
    return found["found"] + await price(item)


@replay.agent(version="1")
async def shop(items):
    with replay.step("search"):
        sums = await asyncio.gather(*[both(item) for item in items], *[look(items[0]) for _ in range(3)])
    return await order(items, sum(one for one in sums if isinstance(one, int)))


loop = Shuffled()
asyncio.set_event_loop(loop)
for _ in range(int(sys.argv[2])):
    loop.run_until_complete(shop(["lamp", "chair", "table", "rug", "sofa"]))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Record the agent two hundred times, each time scheduled otherwise."""
    script = Script(tmp_path_factory.mktemp("shuffled"), SOURCE)
    script.run("5", str(RUNS))
    script.seal()
    runs = script.runs()
    assert len(runs) == RUNS
    orders = {tuple(node.name for node in script.load(run).nodes) for run in runs[:20]}
    assert len(orders) > 10, "the runs were not scheduled at random"
    return script.lake


def test_two_hundred_recordings_are_one_and_the_same(lake):
    """The first beside all others: no pair differs, no step of the matrix changes, and the verdict says so."""
    run = min(summary.run.run_id for summary in Lake(lake).runs()).hex()
    conditions = ["--a", f"run_id = '{run}'", "--b", f"run_id <> '{run}'"]
    done = CliRunner().invoke(main, ["compare", "--lake", str(lake), *conditions, "--json"])
    document = json.loads(done.stdout)
    assert document["pairs"]["verdicts"].keys() <= {"identical", "reordered"}
    assert sum(document["pairs"]["verdicts"].values()) == RUNS - 1
    assert {row["steadiness"] for row in document["matrix"]["rows"]} == {"steady"}
    assert [(path["a"], path["b"]) for path in document["tool_paths"]] == [(1, RUNS - 1)]
    assert (done.exit_code, document["verdict"]) == (0, "no difference beyond noise")


def test_halves_of_them_are_the_same_cohort(lake):
    """A hundred beside a hundred, paired at random: no metric that the agent decides is said to differ."""
    pairing = ["--pair-by", "ordinal // 2"]
    done = CliRunner().invoke(
        main, ["compare", "--lake", str(lake), "--a", "ordinal % 2 = 0", "--b", "ordinal % 2 = 1", *pairing, "--json"]
    )
    document = json.loads(done.stdout)
    assert document["pairs"]["verdicts"].keys() <= {"identical", "reordered"}
    judged = {one["name"]: one["judgement"] for one in document["metrics"] if one["name"] != "latency"}
    assert set(judged.values()) <= {"no difference seen", "described"}
