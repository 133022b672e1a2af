"""The same by the command line: drill, resume, decide, and what they say."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.model import RunStatus
from tests.support.resume_world import ROOT, World

TOOLS = """
import sys
import httpx2
import otel_agent_replay as replay

WORLD = {world!r}

def change(path, value, key=""):
    return httpx2.post(WORLD + path, json=value, headers={{"x-key": key}}).json()

def ask(prompt):
    body = {{"model": "m", "messages": [{{"role": "user", "content": prompt}}]}}
    answer = httpx2.post(WORLD + "/v1/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]
"""

DESK = """
@replay.tool(side_effect="write")
def refund(order, idempotency_key=""):
    return change("/refunds", {"order": order}, idempotency_key)

@replay.tool
def ring(text):
    return change("/bells", {"text": text})["number"]

@replay.approval(action="pay")
def may_pay(order):
    replay.suspend()

@replay.tool(side_effect="write", approval=True)
def pay(order, idempotency_key=""):
    return change("/paid", {"order": order}, idempotency_key)["number"]

@replay.agent
def desk(order):
    return [ask(order), refund(order)["number"], ask(order + " last")]

@replay.agent
def bell(order):
    return [ask(order), ring(order), ask(order + " last")]

@replay.agent
def payer(order):
    change("/before", {"order": order})
    return [pay(order) if may_pay(order) else "refused", ask(order + " last")]

if __name__ == "__main__":
    print({"desk": desk, "bell": bell, "payer": payer}[sys.argv[1]](sys.argv[2]))
"""

BARE = """
found = ask("first")
done = change("/bare", {"found": found}, "k-1")
print(found, done["number"], ask("last"))
"""


class Shop:
    """A folder with an agent's script, a lake, and a world."""

    def __init__(self, folder: Path, world: World, code: str) -> None:
        self.folder = folder
        self.world = world
        self.lake = folder / "lake"
        self.script = folder / "shop.py"
        self.script.write_text(textwrap.dedent(TOOLS).format(world=world.provider.url) + code)

    def run(self, *arguments: str, status: int, **options: str) -> str:
        """Run `agent-replay` with these arguments; return what it printed.

        It runs in this process: what is recorded, killed and resumed are children, whatever it runs in.
        """
        environment = dict.fromkeys(name for name in os.environ if name.startswith("AGENT_REPLAY_"))
        environment.update({f"AGENT_REPLAY_{name.upper()}": value for name, value in options.items()})
        environment.update(PYTHONPATH=str(ROOT), PYTHONHASHSEED="7", COLUMNS="200")
        command, *rest = arguments
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            done = CliRunner().invoke(main, [command, "--lake", str(self.lake), *rest], env=environment)
        assert done.exit_code == status, done.output
        self.printed = done.stdout
        return done.stdout + done.stderr

    def json(self, *arguments: str) -> dict:
        """Return what `agent-replay` prints as JSON."""
        self.run(*arguments, status=0)
        return json.loads(self.printed[self.printed.index("{\n") :])

    def command(self, *words: str) -> list[str]:
        return ["--", sys.executable, str(self.script), *words]

    def recorded(self, text: str) -> str:
        """Return the id of the run that a table of recorded runs names."""
        return re.findall(r"[0-9a-f]{32}", text)[0]


@pytest.fixture
def world():
    with World() as world:
        yield world


@pytest.fixture
def shop(world, tmp_path):
    return Shop(tmp_path, world, DESK)


def test_a_drill_kills_resumes_and_leaves_a_run_that_holds_and_replays(shop, world):
    """`drill` kills for real and resumes; the run then verifies, replays exactly and is the same as an unbroken one."""
    told = shop.json("drill", "--kill-at", "during:3", "--json", *shop.command("desk", "x"))
    run = told["run_id"]
    assert (told["status"], told["kill_at"]) == ("finished", "during:3")
    assert set(world.done.values()) == {1}
    assert set(world.asked.values()) == {1}
    shop.run("verify", run, status=0)
    shop.run("replay", run, *shop.command("desk", "x"), status=0)
    shop.run("replay", run, "--entry", "shop:desk", status=0)
    world.done.clear()
    whole = shop.recorded(shop.run("record", *shop.command("desk", "x"), status=0))
    shop.run("diff", run, whole, status=0)
    shop.run("resume", run, *shop.command("desk", "x"), status=125)


def test_an_effect_in_doubt_is_listed_with_both_outcomes_and_decided(shop, world):
    """The command line names what is in doubt, with both possible words, and takes either; then the run goes on."""
    killed = shop.run(
        "record", *shop.command("bell", "x"), status=128 + signal.SIGKILL, kill_at="during:3", ledger="file"
    )
    run = shop.recorded(killed)
    told = shop.run("resume", run, *shop.command("bell", "x"), status=75)
    assert "ring" in told
    assert "agent-replay decide" in told
    (row,) = shop.json("decide", "--json")["waiting"]
    assert (row["run"], row["step"], row["name"]) == (run, 2, "ring")
    assert "--happened" in row["if_it_happened"]
    assert "--not-happened" in row["if_not"]
    assert "x" in row["arguments"]
    shop.run("decide", run, "--step", "2", "--happened", "1", "--by", "ana", status=0)
    shop.run("decide", run, "--step", "2", "--happened", "1", status=125)
    shop.run("resume", run, "--entry", "shop:bell", status=0)
    assert set(world.called.values()) == {1}
    assert set(world.asked.values()) == {1}


def test_a_run_that_waits_for_a_person_is_approved_and_goes_on(shop, world):
    """A suspended run is listed with both answers; approved, it pays, once, and what came before is not repeated."""
    run = shop.recorded(shop.run("record", *shop.command("payer", "x"), status=1, ledger="file"))
    (row,) = shop.json("decide", "--json")["waiting"]
    assert (row["run"], row["waits_for"], row["if_it_happened"], row["if_not"]) == (
        run, "approval", "--approve", "--reject"
    )  # fmt: skip
    shop.run("decide", run, "--step", str(row["step"]), "--approve", "--by", "ana", status=0)
    shop.run("resume", run, *shop.command("payer", "x"), status=0)
    assert {what.split()[0]: count for what, count in world.called.items()} == {"/before": 1, "/paid": 1}


@pytest.mark.soak
def test_other_code_is_refused_by_name_unless_told(shop, world):
    """After the source was edited a run is not gone on with, and the report says what differs; `--changed` does it."""
    run = shop.recorded(shop.run("record", *shop.command("desk", "x"), status=128 + signal.SIGKILL, kill_at="before:2"))
    shop.script.write_text(shop.script.read_text() + "\n# another version\n")
    told = shop.run("resume", run, *shop.command("desk", "x"), status=125)
    assert "source was" in told
    assert "--changed" in told
    assert not world.called
    shop.run("resume", run, "--changed", *shop.command("desk", "x"), status=0)
    assert set(world.done.values()) == {1}


def test_a_run_beyond_its_steps_is_told_to_be_aborted(shop, world):
    """`--max-steps` stops the run, says so, and leaves it aborted."""
    run = shop.recorded(shop.run("record", *shop.command("desk", "x"), status=128 + signal.SIGKILL, kill_at="after:1"))
    told = shop.run("resume", run, "--max-steps", "2", *shop.command("desk", "x"), status=1)
    assert "2 steps" in told
    assert RunStatus.ABORTED.value in json.dumps(shop.json("runs", "--json"))


@pytest.mark.soak
def test_a_script_without_any_agent_is_resumed_by_its_command(world, tmp_path):
    """A plain script that died under `record` is one run, and `resume` finishes it: nothing is asked or sent twice."""
    shop = Shop(tmp_path, world, BARE)
    run = shop.recorded(shop.run("record", *shop.command(), status=128 + signal.SIGKILL, kill_at="during:2"))
    shop.run("resume", run, *shop.command(), status=75)
    book = shop.json("decide", "--json")["waiting"]
    assert [row["run"] for row in book] == [run]
    shop.run("decide", run, "--step", "2", "--not-happened", status=0)
    shop.run("resume", run, *shop.command(), status=0)
    assert dict(world.asked) == {"first": 1, "last": 1}
    assert set(world.done.values()) == {1}
    shop.run("replay", run, *shop.command(), status=0)
