"""Re-runs by the command line: the model live on the candidate, everything else from recordings or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.testing.provider import Reply, ScriptedProvider

ROOT = Path(__file__).parent.parent.parent
ENTRY = "tests.support.rerun_agents:clerk"
AGENT = [sys.executable, str(ROOT / "tests/support/rerun_agents.py")]


class World:
    """A model that does as it is told by name, a shop that is read, and a bank that remembers every write."""

    def __init__(self):
        self.scripts, self.orders = {}, {}
        self.asked, self.read, self.rehearsed, self.writes = [], [], [], []
        self.served = ""  # the model that answers, "": the one that was asked

    def model(self, request):
        body = json.loads(request.body)
        self.asked.append(body)
        script = self.scripts.get(body["model"], [])
        content = script if isinstance(script, str) else json.dumps(script)
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
        model = self.served or body["model"]
        return Reply.of_json(
            {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}
        )

    def shop(self, request):
        if request.method == "POST":
            self.rehearsed.append(json.loads(request.body))
            return Reply.of_json({"rehearsed": True})
        self.read.append(request.path)
        return Reply.of_json({"path": request.path, "state": self.orders.get(request.path.split("/")[-1], "open")})

    def bank(self, request):
        self.writes.append((request.path, request.body))
        return Reply.of_json({"paid": True})


class Stage:
    """A folder with a lake, servers, and the command line."""

    def __init__(self, folder, world, urls):
        self.folder, self.world = folder, world
        self.lake = folder / "lake"
        self.into = folder / "lake-reruns"
        self.shop = urls["SHOP_URL"].removeprefix("http://")
        ours = ("AGENT_REPLAY_", "OTEL_", "OPENAI_", "ANTHROPIC_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environment = {**clean, **urls, "PYTHONPATH": str(ROOT)}

    def record(self, script, order="17", **more):
        """Record a run of the clerk whose model says `script`; return its id."""
        self.world.scripts["old"] = script
        known = {one.run.run_id for one in Lake(self.lake).runs()}
        done = subprocess.run(
            [*AGENT, *order.split()],
            env={**self.environment, "AGENT_REPLAY_LAKE": str(self.lake), "AGENT_REPLAY_SEAL": "off", **more},
            cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seal(self.lake)
        runs = [one.run for one in Lake(self.lake).runs() if one.run.run_id not in known]
        return next(run.run_id.hex() for run in runs if run.agent == "clerk")

    def command(self, *words):
        return [sys.executable, "-m", "otel_agent_replay", "rerun", "--lake", str(self.lake), *words]

    def rerun(self, *words, way=("--entry", ENTRY), candidate="new", **more):
        """Run runs again; return exit code, the JSON document, and what was said."""
        what = ["--candidate", f"model={candidate}"] if candidate else []
        done = subprocess.run(
            self.command("--json", *what, *words, *way),
            env={**self.environment, **more}, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        document = json.loads(done.stdout) if done.stdout.startswith("{") else None
        return done.returncode, document, done.stderr

    def one(self, *words, **more):
        """Run one run again; return its exit code and its result in the candidate lane."""
        code, document, said = self.rerun(*words, **more)
        assert document is not None, said
        (result,) = [one for one in document["results"] if one["lane"] == "candidate"]
        return code, result

    def again(self, result):
        """Return the recording of a re-run."""
        return Lake(self.into).load(bytes.fromhex(result["report"]["run_id"]))


@pytest.fixture
def stage(tmp_path):
    world = World()
    with (
        ScriptedProvider(world.model) as model,
        ScriptedProvider(world.shop) as shop,
        ScriptedProvider(world.bank) as bank,
    ):
        yield Stage(tmp_path, world, {"MODEL_URL": model.url, "SHOP_URL": shop.url, "PAY_URL": bank.url})


def test_a_candidate_that_does_the_same_finishes_alike(stage):
    """Reads and writes come from the recording; the re-run is linked, marked, and in a lake of its own."""
    script = [["find", "17"], ["refund", "17", 100], ["count", "abc"]]
    origin = stage.record(script)
    files = {path: path.read_bytes() for path in stage.lake.rglob("*.parquet")}
    stage.world.scripts["new"] = script
    code, result = stage.one(origin)
    assert (code, result["status"], result["alike"]) == (0, "finished", True), result
    assert (result["answers"], result["off_tape"]) == ({"tape": 2}, 0)
    assert [body["model"] for body in stage.world.asked] == ["old", "new"]
    assert (len(stage.world.writes), len(stage.world.read)) == (1, 1)
    run = stage.again(result).run
    assert (run.origin_run_id.hex(), run.mode, run.replay, run.fork_step) == (origin, "regression", True, 0)
    assert {path: path.read_bytes() for path in stage.lake.rglob("*.parquet")} == files
