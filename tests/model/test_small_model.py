"""A real, small model on this machine: recorded, replayed, asked again, run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Kind
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from tests.model.serve_smollm import served, why_not

pytestmark = [pytest.mark.model, pytest.mark.skipif(bool(why_not()), reason=why_not() or "the model is here")]

ROOT = Path(__file__).parents[2]
ENTRY = "tests.model.model_clerk:clerk"
BOOKS = "You are the clerk of a book shop. Books are refunded because pages are missing."
OURS = ("AGENT_REPLAY_", "OTEL_", "OPENAI_", "ANTHROPIC_")
PATIENCE_S = 300


class Shop:
    """A lake, a shop that is read, a bank that is written to, and the command line; the model is somewhere else."""

    def __init__(self, folder, shop, bank):
        self.folder, self.shop, self.bank = folder, shop, bank
        self.lake = folder / "lake"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.environment = {**clean, "SHOP_URL": shop.url, "PAY_URL": bank.url, "PYTHONPATH": str(ROOT)}

    def record(self, url, way):
        """Record a run of the clerk on the model at `url`; return it."""
        known = {one.run.run_id for one in Lake(self.lake).runs()}
        done = self._ended(
            [sys.executable, str(ROOT / "tests/model/model_clerk.py"), "17", way],
            MODEL_URL=url, AGENT_REPLAY_LAKE=str(self.lake), AGENT_REPLAY_SEAL="off",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seal(self.lake)
        (run,) = [one.run for one in Lake(self.lake).runs() if one.run.run_id not in known]
        return Lake(self.lake).load(run.run_id)

    def command(self, name, *words, url=""):
        """Run a command; return its exit code and its JSON document."""
        words = [name, "--lake", str(self.lake), "--json", *map(str, words)]
        done = self._ended([sys.executable, "-m", "otel_agent_replay", *words], MODEL_URL=url)
        assert done.stdout.startswith("{"), done.stderr
        return done.returncode, json.loads(done.stdout)

    def _ended(self, argv, **more):
        return subprocess.run(
            argv, env={**self.environment, **more}, cwd=self.folder, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with (
        ScriptedProvider([Reply.of_json({"state": "delivered"})]) as shop,
        ScriptedProvider([Reply.of_json({"paid": True})]) as bank,
    ):
        yield Shop(tmp_path_factory.mktemp("shop"), shop, bank)


@pytest.fixture(scope="module")
def url():
    with served() as url:
        yield url


@pytest.fixture(scope="module")
def recorded(shop, url):
    """A run that was recorded on the model that still serves."""
    return shop.record(url, "plain")


def of_kind(recorded, kind):
    return [node for node in recorded.nodes if node.kind is kind]


@pytest.mark.parametrize("way", ["plain", "stream"])
def test_a_recorded_model_replays_exactly_when_it_is_gone(tmp_path, shop, way):
    """Tool calls and words of a real server, as one body or as a stream, are recorded and replay without it."""
    own = Shop(tmp_path, shop.shop, shop.bank)
    with served() as url:
        recorded = own.record(url, way)
    assert [node.name for node in of_kind(recorded, Kind.TOOL)] == ["find", "refund"]
    assert len(of_kind(recorded, Kind.MODEL)) == 3
    writes, reads = len(shop.bank.seen), len(shop.shop.seen)
    code, verdict = own.command("replay", recorded.run.run_id.hex(), "--entry", ENTRY, url=url)
    assert (code, verdict["status"]) == (0, "same"), verdict
    assert (len(shop.bank.seen), len(shop.shop.seen)) == (writes, reads)


def test_a_model_without_chance_answers_the_same_again(shop, url, recorded):
    """At temperature 0 with a seed each of three answers is the recorded call: no bad luck, but systematic."""
    for model in of_kind(recorded, Kind.MODEL)[1:]:  # a call with free words in it, and a text
        code, found = shop.command("ask", recorded.run.run_id.hex(), "--step", model.step, "--repeat", 3)
        assert code == 0, found
        (candidate,) = found["candidates"]
        assert (candidate["answers"], candidate["agreeing"], len(candidate["actions"])) == (3, 3, 1), found
        assert candidate["actions"][0]["match"] == "same"


def test_a_re_run_on_the_same_model_does_the_same(shop, url, recorded):
    """The model is asked live and acts as recorded; the read and the write come from the recording."""
    before = len(shop.bank.seen), len(shop.shop.seen)
    code, document = shop.command(
        "rerun", recorded.run.run_id.hex(), "--baseline", "--entry", ENTRY, "--into", shop.folder / "same", url=url
    )
    (result,) = [one for one in document["results"] if one["lane"] == "baseline"]
    assert (code, result["status"], result["alike"], result["answers"]) == (0, "finished", True, {"tape": 2}), document
    assert (len(shop.bank.seen), len(shop.shop.seen)) == before


def test_a_re_run_on_another_prompt_departs_and_pays_nothing(shop, url, recorded):
    """Another prompt makes the model give another reason: that write is not on record and is refused, not sent."""
    before = len(shop.bank.seen)
    code, document = shop.command(
        "rerun", recorded.run.run_id.hex(), "--prompt", BOOKS, "--entry", ENTRY, "--into", shop.folder / "other",
        "--allow", shop.bank.url.removeprefix("http://"), url=url,
    )  # fmt: skip
    (result,) = [one for one in document["results"] if one["lane"] == "candidate"]
    assert (code, result["status"], result["alike"]) == (1, "refused", False), document
    assert "refund" in result["parted"]["came"]
    assert len(shop.bank.seen) == before


def test_steps_put_to_the_model_that_was_recorded_agree(shop, url, recorded, tmp_path):
    """As a candidate at its own address the model agrees at every step; with another prompt it differs at the write."""
    run = f"run_id = '{recorded.run.run_id.hex()}'"
    candidate = f"model=smollm2,base_url={url}/v1"
    asked = ("steps", "--where", run, "--candidate", candidate, "--parallel", 1)
    code, found = shop.command(*asked, "--text-likeness", 1, "--out", tmp_path / "same.steps")
    lane = found["lanes"]["candidate"]
    assert (code, found["steps"], lane["in_sight"]["agreement"]) == (0, 3, 1), found
    code, found = shop.command(*asked, "--set", f"prompt={BOOKS}", "--out", tmp_path / "other.steps")
    assert code == 1, found
    told = {one["match"]: one["risk"] for one in found["disagreements"]}
    assert told == {"other arguments": "write"}
