"""An entry that cannot be imported or called: scripts find the reason in the JSON document."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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


def cli(folder, *arguments):
    command = [sys.executable, "-m", "otel_agent_replay", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("entry")
    (folder / "desk.py").write_text(AGENT)
    (folder / "broken.py").write_text(BROKEN)
    assert cli(folder, "record", "--", sys.executable, "desk.py").returncode == 0
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return json.loads(cli(folder, "runs", "--json").stdout)["runs"][0]["run"]


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
def test_the_reason_is_in_the_document(folder, run, command, entry, reason):
    """A script that reads `--json` is told what a person reads on standard error."""
    done = cli(folder, *command, run, "--json", "--entry", entry)
    document = json.loads(done.stdout)
    told = document if command[0] != "rerun" else document["results"][-1]["report"]
    assert reason in told["reason"]
    assert reason in done.stderr
    assert done.returncode == 125
