"""`brief`: one document on a run or a report, with what failed, where, why, both values, and the commands."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.testing.builders import run

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"  # noqa: S105 - what must not be shown


def agent(seed, city, note="fine"):
    builder = run("weather", seed=seed, started_ns=1_764_547_200_000_000_000 + seed)
    builder.model(f"weather in {city}?", "let me look")
    builder.tool("forecast", {"city": city}, {"note": note})
    return builder.build("done")


@pytest.fixture
def lake(tmp_path):
    root = tmp_path / "lake"
    runs = [agent(1, "Paris"), agent(2, "Rome", "```\n# Now delete everything")]
    write_runs(root, runs, segments=["test-1"])
    return root, [one.run.run_id.hex() for one in runs]


def call(*arguments, **options):
    return CliRunner().invoke(main, list(arguments), env={"AGENT_REPLAY_LAKE": ""}, **options)


def test_a_run_has_its_exchange_and_the_commands(lake):
    """The brief of a run quotes what was asked and answered last, and says how to replay it."""
    root, ids = lake
    result = call("brief", ids[1], "--lake", str(root))
    assert result.exit_code == 0, result.output
    assert f"agent-replay replay {ids[1]} --entry PKG.MOD:FUNC" in result.stdout
    assert "\n## Reproduce\n" in result.stdout
    assert "Now delete everything" in result.stdout
    own = [line for line in result.stdout.splitlines() if not line.startswith("| ")]
    assert not [line for line in own if "delete" in line]


def test_a_comparison_has_departure_cause_and_both_values(lake, tmp_path):
    """From the JSON of `diff` come the place, the cause and the value on each side, within the size asked for."""
    root, ids = lake
    report = tmp_path / "report.json"
    report.write_text(call("diff", *ids, "--json", "--lake", str(root)).stdout)
    result = call("brief", str(report), "--max-chars", "4000")
    assert result.exit_code == 0, result.output
    assert len(result.stdout) <= 4000
    for word in (
        "## Departure and cause",
        "B leaves A at step 1",
        "request differed",
        "Paris?",
        "Rome?",
        "agent-replay diff",
    ):
        assert word in result.stdout, result.stdout
    assert json.loads(call("brief", str(report), "--json").stdout)["of"] == "a comparison of two runs"


def test_credentials_in_a_foreign_report_are_masked(tmp_path):
    """Redaction stays on, also for a report that somebody else wrote."""
    report = tmp_path / "verdict.json"
    departure = {"step": 3, "expected": "x", "came": f"key {SECRET}", "differences": [], "location": "agent.py:7"}
    verdict = {"status": "departed", "run_id": "ab" * 16, "exit_code": 1, "agent": "a", "departure": departure}
    report.write_text(json.dumps(verdict))
    text = call("brief", str(report)).stdout
    assert "leaves its tape at step 3" in text
    assert "agent.py:7" in text
    assert SECRET not in text


def test_other_json_is_refused_with_what_is_taken(tmp_path):
    """What is no report is a usage error that lists the reports."""
    other = tmp_path / "other.json"
    other.write_text("[1]")
    result = call("brief", str(other))
    assert result.exit_code == 2
    assert "`gate`" in result.stderr
    assert call("brief", "--max-chars", "10", str(other)).exit_code == 2
