"""`calibrate`: what comes back from no tape is found, located, and left out by rules that hold for old recordings."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.replay.verdict import VerdictStatus
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import echo
from tests.support.agents import Script

pytest.importorskip("httpx")
pytestmark = pytest.mark.soak

SOURCE = """
import os, time, uuid
import httpx
import otel_agent_replay as replay

client = httpx.Client()

@replay.agent
def support(question):
    with open("/proc/sys/kernel/random/uuid") as file:
        outside = file.read().strip()
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": f"{question} at {time.time()} as {uuid.uuid4()}"}],
        "metadata": {"outside": outside, "tags": list({"alpha", "beta", "gamma", "delta", "epsilon"})},
    }
    answer = client.post(os.environ["SERVER"] + "/v1/chat/completions", json=body).json()
    return answer["choices"][0]["message"]["content"]

if __name__ == "__main__":
    support("where?")
"""


def calibrate(script, *arguments):
    environment = {name: None for name in os.environ if name not in script.environment}
    return CliRunner().invoke(main, ["calibrate", *arguments], env={**environment, **script.environment})


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    before = os.getcwd()
    os.chdir(folder)
    try:
        with ScriptedProvider(echo) as server:
            script = Script(folder, SOURCE, SERVER=server.url)
            old = script.record()["support"]
            result = calibrate(script, "--json", "--write", "--timeout", "60", "--", *script.argv)
    finally:
        os.chdir(before)
    assert result.exit_code == 1, result.output
    return script, old, json.loads(result.stdout[result.stdout.index("{\n") :])


def test_what_no_tape_gives_back_is_told_from_what_is_recorded(found):
    """A kernel's uuid and a set's order are missing on the tape, each by its own name; clock and uuid4 are on it."""
    _script, _old, document = found
    (agent,) = document["agents"]
    assert agent["settled"] is True, agent
    origins = {one["path"].partition("[")[0]: one["origin"] for one in agent["unrecorded"]}
    assert origins == {"metadata.outside": "not on the tape", "metadata.tags": "the order of a set"}
    fates = {item["path"]: item["fate"] for item in agent["varying"]}
    assert fates["messages[0].content"] == "comes back from the tape"
    assert any(name.startswith("clock time.time") for name in agent["reads"])


def test_the_place_in_the_code_is_named(found):
    """Each missing value comes with file and line of the code that sent it."""
    script, _old, document = found
    line = 1 + script.path.read_text().splitlines().index(
        '    answer = client.post(os.environ["SERVER"] + "/v1/chat/completions", json=body).json()'
    )
    assert {one["location"] for one in document["agents"][0]["unrecorded"]} == {f"{script.path}:{line}"}


def test_written_rules_make_an_older_recording_replay_which_stays_as_it_is(found):
    """A run recorded before the rules departs without and is the same with them; its files are not touched."""
    script, old, document = found
    assert 'volatile = ["metadata.outside", "metadata.tags[*]"]' in (script.folder / "pyproject.toml").read_text()
    files = {path: path.read_bytes() for path in (script.lake / "spans").rglob("*.parquet")}
    assert script.replay(old).status is VerdictStatus.SAME
    assert all(path.read_bytes() == data for path, data in files.items())
    (script.folder / "pyproject.toml").rename(script.folder / "aside.toml")
    try:
        assert script.replay(old).status is VerdictStatus.DEPARTED
    finally:
        (script.folder / "aside.toml").rename(script.folder / "pyproject.toml")
    assert document["rules"] == ["metadata.outside", "metadata.tags[*]"]


def test_an_entry_is_recorded_and_settled_like_a_command(tmp_path, monkeypatch):
    """--entry calls the function with --input, records it, and finds the same sources, file and line."""
    monkeypatch.chdir(tmp_path)
    with ScriptedProvider(echo) as server:
        script = Script(tmp_path, SOURCE, SERVER=server.url)
        entry = f"{script.path.stem}:support"
        given = json.dumps({"question": "where?"})
        result = calibrate(script, "--json", "--timeout", "60", "--entry", entry, "--input", given)
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout[result.stdout.index("{\n") :])
    (agent,) = document["agents"]
    origins = {one["path"].partition("[")[0]: one["origin"] for one in agent["unrecorded"]}
    assert origins == {"metadata.outside": "not on the tape", "metadata.tags": "the order of a set"}
    assert all(one["location"].startswith(f"{script.path}:") for one in agent["unrecorded"])
    assert not (tmp_path / "pyproject.toml").exists()  # nothing is written without --write


def test_usage_errors_come_before_anything_runs(tmp_path):
    """A command and an entry together, or an input that is no object, are refused."""
    for arguments in (["--entry", "a:b", "--", "python"], ["--entry", "a:b", "--input", "[]"], []):
        assert CliRunner().invoke(main, ["calibrate", *arguments]).exit_code == 2
