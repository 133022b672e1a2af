"""The recording that the package carries for `agent-replay demo` holds, and the demo shows what it promises."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from otel_agent_replay.compare import Verdict, compare
from otel_agent_replay.demo import RECORDING, pocket_agent
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.verify import verify
from tests.support.agents import ROOT


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    lake = shutil.copytree(RECORDING, tmp_path_factory.mktemp("demo") / "lake")
    (summary,) = Lake(lake).runs()
    return Lake(lake).load(summary.run.run_id)


def test_the_recording_verifies_and_is_identical_with_itself(recorded):
    """Every digest holds, nothing was lost, and it does not differ from itself."""
    assert verify(recorded) == []
    assert recorded.losses == ()
    assert compare(recorded, recorded).verdict is Verdict.IDENTICAL


def test_the_recording_is_of_the_agent_that_is_there(recorded):
    """It was made from the functions that the package has now: make it again when one is renamed."""
    declared = {function.__name__ for function in pocket_agent.TOOLS.values()} | {"find_policy", "needs_a_person"}
    assert declared <= {node.name for node in recorded.nodes}
    assert recorded.run.entry == "otel_agent_replay.demo.pocket_agent:answer"


def demo(folder, *options):
    ours = ("AGENT_REPLAY_", "OTEL_", "POCKET_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, "-m", "otel_agent_replay", "demo", *options],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_demo_replays_and_departs(tmp_path):
    """`demo --json` ends with 0: the unchanged agent is the same, the changed one departs at its prompt."""
    done = demo(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    same, departed = json.loads(done.stdout)
    assert (same["status"], departed["status"]) == ("same", "departed")
    assert same["steps_replayed"] == same["steps_recorded"] > 0
    assert departed["departure"]["differences"][0].startswith("messages[0].content")
    assert list(tmp_path.iterdir()) == []


def test_the_demo_tells_its_story(tmp_path):
    """For a person it shows the steps, the replay and the departure, and what to do next."""
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("refund", "Same:", "Departed", "agent-replay record"):
        assert word in done.stdout
