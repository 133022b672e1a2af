"""An entry that cannot be imported or called: scripts find the reason in the JSON document."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main

AGENT = """
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def find(order):
    return {"state": "open"}

@replay.agent(name="desk")
def desk(order):
    return find(order)["state"]

if __name__ == "__main__":
    desk("17")
"""
BROKEN = 'raise RuntimeError("no settings file")\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the agent, a module that cannot be imported, and a lake with a run."""
    folder = tmp_path_factory.mktemp("entry")
    (folder / "desk.py").write_text(AGENT)
    (folder / "broken.py").write_text(BROKEN)
    command = [sys.executable, "-m", "otel_agent_replay", "record", "--", sys.executable, "desk.py"]
    assert subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False).returncode == 0
    return folder


@pytest.fixture(scope="module")
def run(folder):
    """The id of that run."""
    told = CliRunner().invoke(main, ["runs", "--json", "--lake", str(folder / ".agent-replay")])
    return json.loads(told.stdout)["runs"][0]["run"]


@pytest.mark.parametrize(
    ("command", "entry", "reason"),
    [
        (("replay",), "missing.mod:func", "there is no module 'missing' to be found from"),
        (("replay",), "desk:gone", "module 'desk' has no 'gone'"),
        (("replay",), "broken:desk", "RuntimeError: no settings file"),
        (("fork", "--at", "1"), "missing.mod:func", "there is no module 'missing'"),
        (("rerun", "--candidate", "model=new"), "missing.mod:func", "there is no module 'missing'"),
    ],
)
def test_the_reason_is_in_the_document(folder, run, command, entry, reason, monkeypatch, capfd):
    """A script that reads `--json` is told what a person reads on standard error."""
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(main, [*command, run, "--json", "--entry", entry])  # it starts the child in any case
    document = json.loads(done.stdout)
    told = document if command[0] != "rerun" else document["results"][-1]["report"]
    assert reason in told["reason"]
    assert reason in done.stderr + capfd.readouterr().err
    assert done.exit_code == 125
