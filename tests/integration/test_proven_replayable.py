"""`verify --replay`: which recordings are proven to replay, which have only been lucky, and where that is kept."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import echo
from tests.support.agents import Script

pytest.importorskip("httpx")

SOURCE = """
import os, sys, threading
import httpx
import otel_agent_replay as replay

client = httpx.Client()

def ask(text):
    replay.versions(agent="v7")
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return client.post(os.environ["SERVER"] + "/v1/chat/completions", json=body).json()["choices"][0]["message"]

@replay.agent
def steady(question):
    return ask("steady: " + question)["content"]

@replay.agent
def sets(question):
    return ask(" ".join({"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}))["content"]

@replay.agent
def outside(question):
    with open(os.environ["COUNTER"]) as file:
        return ask("counted " + file.read())["content"]

def spin(rounds):
    total = 0
    for number in range(rounds):
        total += number

def raced(*, joined):
    # two threads note when they are done; what they do in between crosses no boundary
    seen = []

    def work(name, rounds):
        spin(rounds)
        seen.append(name)

    workers = [threading.Thread(target=work, args=one) for one in (("slow", 40_000), ("quick", 10))]
    for worker in workers:
        worker.start()
        if joined:
            worker.join()
    for worker in workers:
        worker.join()
    return ask(" before ".join(seen))["content"]

@replay.agent
def racing(question):
    return raced(joined=False)

@replay.agent
def taking_turns(question):
    return raced(joined=True)

globals()[sys.argv[1]]("where?")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proven")
    counter = folder / "counter"
    counter.write_text("1")
    with ScriptedProvider(echo) as server:
        made = Script(folder, SOURCE, SERVER=server.url, COUNTER=str(counter))
        names = ("steady", "sets", "outside", "racing", "taking_turns")
        runs = {name: made.record(name)[name] for name in names}
    counter.write_text("2")
    return made, {name: recorded.run.run_id.hex() for name, recorded in runs.items()}


def verify(script, name, *more, times=2):
    made, runs = script
    options = ["--lake", str(made.lake), "--replay", "--times", str(times), *more]
    return CliRunner().invoke(
        main,
        ["verify", runs[name], *options, "--", *made.argv, name],
        env={**made.environment, "AGENT_REPLAY_LAKE": ""},
    )


def query(script, sql):
    made, _ = script
    result = CliRunner().invoke(main, ["sql", sql, "--json", "--lake", str(made.lake)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_deterministic_agent_is_proven_and_the_verdict_is_kept(script):
    """Two replays with other hash seeds and scheduling are the same; the view has run, version, verdict and reason."""
    result = verify(script, "steady", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == "proven"
    seeds = {one["hash_seed"] for one in document["replays"]}
    assert len(seeds) == 2
    assert "7" not in seeds
    found = query(
        script, "SELECT agent, version_agent, verdict, proven, replays FROM replayability WHERE agent = 'steady'"
    )
    assert found == [
        {"agent": "steady", "version_agent": "v7", "verdict": "proven", "proven": True, "replays": 2},
    ]


def test_the_order_of_a_set_is_found_to_need_the_recorded_hash_seed(script):
    """An agent that joins a set replays with the recorded seed only; that is what the verdict says, not "departs"."""
    result = verify(script, "sets", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == "only with the recorded hash seed"
    assert "step 1" in document["reason"]
    assert [one["status"] for one in document["replays"]] == ["departed", "same", "same", "departed"]


@pytest.mark.soak
def test_a_race_that_is_not_on_the_tape_is_found_and_called_one(script):
    """Threads that race between their crossings do not replay: disturbed scheduling finds it, whoever had won."""
    result = verify(script, "racing", "--json", times=12)
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == "departs"
    assert "which thread goes first decides, and that is not on the tape" in document["reason"]
    turns = json.loads(verify(script, "taking_turns", "--json", times=12).stdout)
    assert turns["verdict"] == "proven"  # the same threads, joined: disturbed as much, and there is nothing to find


def test_an_unrecorded_read_departs_and_says_where(script):
    """A file that is no longer as it was makes the replay depart, with any seed; the place is named."""
    result = verify(script, "outside")
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("Departs: it departs at step 1")
    assert "messages[0].content" in result.stdout
    assert "undisturbed too" in result.stdout


def test_the_latest_verdict_of_a_run_counts(script):
    """A second verification of a run replaces the first in the view; both stay as labels."""
    first = query(script, "SELECT count(*) AS n FROM labels WHERE name = 'replayability'")[0]["n"]
    assert verify(script, "steady").exit_code == 0
    rows = query(script, "SELECT run_id FROM replayability WHERE agent = 'steady'")
    assert len(rows) == 1
    assert query(script, "SELECT count(*) AS n FROM labels WHERE name = 'replayability'")[0]["n"] == first + 1


def test_an_entry_without_replay_is_a_usage_error(script):
    """Digests need no code: an entry is for --replay, and --replay needs one or a command."""
    made, runs = script
    for arguments in (["--entry", "a:b"], ["--replay"]):
        result = CliRunner().invoke(main, ["verify", runs["steady"], "--lake", str(made.lake), *arguments])
        assert result.exit_code == 2
