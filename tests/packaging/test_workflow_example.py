"""The README's workflow for GitHub Actions is one: valid YAML, steps that run, commands and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from otel_agent_replay.cli.main import main

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
WORKFLOW = next(yaml.safe_load(block) for block in BLOCKS if "runs-on" in block)
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_yaml_block_parses(block):
    """No block of YAML on the page is broken."""
    assert yaml.safe_load(block)


def test_it_runs_on_pull_requests_and_may_comment():
    """It has a trigger, the permission to comment, and jobs of steps that each do one thing."""
    assert WORKFLOW[True] == "pull_request"  # YAML 1.1 reads `on` as true, as GitHub knows
    assert WORKFLOW["permissions"]["pull-requests"] == "write"
    for job in WORKFLOW["jobs"].values():
        assert job["runs-on"]
        assert job["steps"]
    assert all(("uses" in step) != ("run" in step) for step in STEPS)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)


def test_its_commands_and_options_exist():
    """Each `agent-replay` line names a command, and each option of it one that the command has."""
    lines = [line for step in STEPS if "run" in step for line in step["run"].splitlines() if "agent-replay " in line]
    called = [shlex.split(line) for line in lines if line.startswith("agent-replay ")]
    assert called
    for words in called:
        command = main.get_command(click.Context(main), words[1])
        assert command is not None, words
        known = {name for option in command.params if isinstance(option, click.Option) for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_what_is_posted_is_what_was_written_also_of_a_gate_that_failed():
    """The step that posts runs after a failure, with a token, and posts the file that the gate writes."""
    (gate,) = [step["run"] for step in STEPS if step.get("run", "").startswith("agent-replay gate")]
    words = shlex.split(gate)
    written = words[words.index("--markdown") + 1]
    (post,) = [step for step in STEPS if "gh pr comment" in step.get("run", "")]
    assert post["if"].startswith("always()")
    assert "GH_TOKEN" in post["env"]
    assert f"--body-file {written}" in post["run"]
