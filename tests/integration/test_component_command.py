"""`agent-replay component`: a case in a walled child, its log updated, and a case cut from a recording."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.replay.component.case import Case, schema
from otel_agent_replay.testing import ScriptedProvider, run_component
from otel_agent_replay.testing.replies import openai_chat_stream
from tests.support.agents import ROOT, Script

DESK = """
import json
import os
import sys
import time

import httpx2

import otel_agent_replay as replay


class Busy(Exception):
    pass


@replay.tool(side_effect="read")
def find_order(order_id):
    if order_id == "busy":
        raise Busy("try later")
    return {"order_id": order_id, "state": ("lost", 1)}


@replay.tool(side_effect="write")
def refund(order_id):
    with open("refunded.txt", "a") as file:
        file.write(order_id)
    return {"refunded": True}


@replay.agent
def desk(order_id):
    print("the desk opens", os.environ.get("SOME_API_KEY"))
    try:
        find_order("busy")
    except Busy as error:
        replay.checkpoint("BUSY", {"why": str(error)}, resumable=True)
        time.sleep(1800)
    order = find_order(order_id)
    model = os.environ.get("MODEL_URL", "http://model.test/v1") + "/chat/completions"
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": str(order["state"][0])}], "stream": True}
    with httpx2.stream("POST", model, json=body) as answer:
        chunks = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    refund(order_id)
    replay.checkpoint("DONE", resumable=True)
    return text


if __name__ == "__main__":
    import unittest.mock

    with unittest.mock.patch("time.sleep"):
        desk("17")
"""
CASE = """
entry: shop:desk
input: {order_id: "17"}
fixtures:
  - tool: find_order
    attempts:
      - error: {type: "shop:Busy", message: try later}
        takes: 2s
      - value: {order_id: "17", state: [lost]}
  - model: chat
    attempts:
      - message: {text: "It is lost."}
  - tool: refund
    attempts:
      - value: {refunded: true}
transitions:
  allowed: ["BUSY -> DONE"]
  terminal: [DONE]
expect:
  result: It is lost.
  final_state: DONE
"""


@pytest.fixture
def shop(tmp_path):
    """A folder with the desk's module and a case of it."""
    (tmp_path / "shop.py").write_text(DESK)
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "case.yaml").write_text(CASE)
    return tmp_path


def component(folder, *arguments):
    """Run the command in this process: the orchestrator runs in a child, whatever the command runs in."""
    environment = dict.fromkeys(name for name in os.environ if name.startswith(("AGENT_REPLAY_", "OPENAI_")))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["component", *map(str, arguments)]
        done = CliRunner().invoke(main, words, env={**environment, "PYTHONPATH": str(ROOT)})
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def component_process(folder, *arguments, **environment):
    """Run it in a process of its own, whose output is all that a person would see."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AGENT_REPLAY_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-m", "otel_agent_replay", "component", *map(str, arguments)],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def edited(shop, old, new):
    path = shop / "case" / "case.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_case_that_holds(shop):
    """Exit code 0; the table, the states and the virtual time are on standard output, the desk's own words are not."""
    done = component_process(shop, "case", SOME_API_KEY="sk-" + "a" * 40)
    assert done.returncode == 0, done.stderr
    assert "case case: holds, 1802 s of virtual time" in done.stdout
    assert "states: BUSY -> DONE" in done.stdout
    assert "the desk opens replay-placeholder" in done.stderr
    assert "the desk opens" not in done.stdout
    assert not (shop / "refunded.txt").exists()


def test_the_whole_result_as_json(shop):
    """Every event, with attempt, shape, virtual times, source and effect."""
    done = component_process(shop, "case", "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["holds"], document["status"]) == ("agent-replay/component", True, "holds")
    kinds = [event["kind"] for event in document["events"]]
    assert kinds == ["run", "tool", "checkpoint", "sleep", "tool", "model", "tool", "checkpoint", "end"]
    refund = document["events"][6]
    assert (refund["at"], refund["attempt"], refund["shape"], refund["source"]) == (1802, 1, "value", "fixture")
    assert refund["happened"] is True


@pytest.mark.soak
def test_the_expected_log_is_written_and_then_held_against(shop):
    """--update writes it once, shows what it changed, and changes nothing the second time; a later change is a diff."""
    first = component(shop, "case", "--update")
    assert (first.returncode, "events.yaml: written" in first.stderr) == (0, True), first.stderr
    written = (shop / "case" / "events.yaml").read_text()
    assert "- {at: 2, sleep: time.sleep" in written
    assert "unchanged" in component(shop, "case", "--update").stderr
    assert (shop / "case" / "events.yaml").read_text() == written
    edited(shop, "takes: 2s", "takes: 5s")
    changed = component(shop, "case")
    assert changed.returncode == 1
    assert "+- {at: 5, sleep: time.sleep" in changed.stdout
    assert component(shop, "case", "--update").returncode == 0
    assert "at: 1805" in (shop / "case" / "events.yaml").read_text()


def test_a_broken_case_is_exit_code_1_and_no_whole_log_is_not_written(shop):
    """A call without a fixture is named; its half of a log is not taken for the expected one."""
    edited(shop, "tool: refund", "tool: refunds")
    broken = component(shop, "case")
    assert broken.returncode == 1
    assert "no_fixture" in broken.stdout
    assert component(shop, "case", "--update").returncode == 2
    assert not (shop / "case" / "events.yaml").exists()


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("fixtures:", "fixturess:", 2, "did you mean 'fixtures'"),
        ("shop:desk", "shop:desks", 2, "has no 'desks'"),
        ("shop:desk", "shops:desk", 125, "there is no module 'shops' to be found from"),
        ("shop:Busy", "shop:Bused", 125, "no error class"),
    ],
)
def test_what_cannot_be_run_is_told_by_its_code(shop, old, new, code, told):
    """Wrong in the case: 2; wrong in what it names: no verdict."""
    edited(shop, old, new)
    done = component(shop, "case")
    assert done.returncode == code
    assert told in done.stderr + done.stdout


def test_an_orchestrator_that_waits_for_ever_is_given_up(shop):
    """A lock that nobody frees is no fixture's: real seconds are bounded."""
    (shop / "shop.py").write_text(
        DESK.replace(
            "time.sleep(1800)", "__import__('threading').Lock().acquire() and __import__('threading').Event().wait()"
        )
    )
    done = component(shop, "case", "--timeout", "5")
    assert done.returncode == 125
    assert "did not end within 5 s" in done.stdout


@pytest.mark.parametrize(("isolate", "told"), [([], "fence: "), (["--isolate"], "PermissionError")])
def test_nothing_leaves_the_child(shop, isolate, told):
    """A connection of the orchestrator's own reaches nobody, and breaks the case; the kernel refuses it earlier."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        way_out = f"__import__('socket').create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        (shop / "shop.py").write_text(DESK.replace("time.sleep(1800)", way_out))
        done = component(shop, "case", *isolate)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.returncode == 1
    assert told in done.stdout
    assert "walls: in-process" in done.stdout


def test_a_file_of_the_orchestrators_own_is_refused(shop):
    """It may not write where it likes."""
    (shop / "shop.py").write_text(DESK.replace("time.sleep(1800)", "open('left.txt', 'w')"))
    assert component(shop, "case").returncode == 1
    assert not (shop / "left.txt").exists()


def test_the_schema_is_printed(shop):
    """For editors, and for other tools."""
    assert json.loads(component(shop, "--schema").stdout) == json.loads(json.dumps(schema()))


@pytest.mark.parametrize(
    "arguments", [[], ["case", "other"], ["new", "0198"], ["case", "--step", "1"], ["new", "0198", "--step", "1"]]
)
def test_a_wrong_call_is_usage(shop, arguments):
    """Which case, or what to cut, has to be said."""
    assert component(shop, *arguments).returncode == 2


# --- cut from a recording ---


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The desk, recorded with a streaming provider."""
    folder = tmp_path_factory.mktemp("recorded")
    with ScriptedProvider([openai_chat_stream(["It ", "is ", "löst", "."])]) as provider:
        script = Script(folder, DESK, name="shop.py", MODEL_URL=f"{provider.url}/v1")
        run = script.record()["desk"]
    return script, run


def steps_of(run, *kinds):
    return [node.step for node in run.nodes if node.kind.value in kinds]


def test_a_case_cut_from_a_run_holds_its_real_bytes(recorded, tmp_path):
    """Body, pieces, heads, values with their types and the tool's own error come from the run; the case then holds."""
    script, run = recorded
    into = tmp_path / "case"
    steps = [word for step in steps_of(run, "tool", "model") for word in ("--step", step)]
    done = component(script.folder, "new", run.run.run_id.hex(), *steps, "--into", into, "--lake", script.lake)
    assert done.returncode == 0, done.stderr
    case = Case.load(into)
    assert [fixture.label for fixture in case.fixtures] == [
        "tool find_order",
        "tool find_order",
        "model chat",
        "tool refund",
    ]
    assert case.input == {"order_id": "17"}
    document = yaml.safe_load((into / "case.yaml").read_text())
    model = next(node for node in run.nodes if node.kind.value == "model")
    response = document["fixtures"][2]["attempts"][0]["response"]
    assert (into / response["body_file"]).read_bytes() == run.payload(model.outcome.result.digest)
    assert response["pieces"] == [chunk.size for chunk in model.outcome.chunks if chunk.size]
    # It was recorded as a script, so the entry and the error's module are the reader's to name.
    text = (into / "case.yaml").read_text().replace("your.module:function", "shop:desk").replace("__main__:", "shop:")
    (into / "case.yaml").write_text(text)
    held = component(script.folder, into, "--json")
    result = json.loads(held.stdout)
    assert (held.returncode, result["result"]) == (0, "It is löst."), held.stdout
    assert [event["shape"] for event in result["events"] if event["shape"]] == [
        "error",
        "value_file",
        "response",
        "value",
    ]


def test_a_case_is_not_cut_over_another_nor_from_what_is_no_call(recorded, tmp_path):
    """An existing case stays; a checkpoint and a step that is not there are named."""
    script, run = recorded
    (tmp_path / "case.yaml").write_text(CASE)
    run_id, lake = run.run.run_id.hex(), ["--lake", script.lake]
    step = steps_of(run, "model")[0]
    assert "already" in component(tmp_path, "new", run_id, "--step", step, "--into", tmp_path, *lake).stderr
    assert (tmp_path / "case.yaml").read_text() == CASE
    checkpoint = steps_of(run, "checkpoint")[0]
    assert "is a checkpoint" in component(tmp_path, "new", run_id, "--step", checkpoint, "--into", "n", *lake).stderr
    assert "no step 999" in component(tmp_path, "new", run_id, "--step", 999, "--into", "n", *lake).stderr


def test_the_same_case_in_a_test(shop, monkeypatch):
    """`run_component` takes the folder, and gives the same log as the command."""
    monkeypatch.syspath_prepend(shop)
    result = run_component(shop / "case").check()
    assert result.log == json.loads(component(shop, "case", "--json").stdout)["log"]
    assert Path(result.case) == shop / "case"
