"""A replay has no credential of whoever starts it, and its own identity reaches no disk."""

import json

from tests.support.agents import Script, assert_same

AGENT = """
import json, os, sys
import otel_agent_replay as replay

AT_IMPORT = os.environ["SHOP_TOKEN"]

@replay.tool(side_effect="read")
def order(number, token):
    return {"number": number}

@replay.agent
def clerk(question):
    order("17", os.environ["SHOP_TOKEN"])
    return [question, os.environ["SHOP_TOKEN"], os.environ["DATABASE_URL"], os.environ.get("REGION")]

answer = clerk("how much?")
json.dump([AT_IMPORT, answer, os.environ["SHOP_TOKEN"], sorted(os.environ)], open(sys.argv[1], "w"))
"""
TOKEN = "live-token-of-the-shop-123456"
URL = "postgres://ann:hunter22hunter22@db/shop"
OWN = "test-identity-98765-of-nobody"


def recorded(tmp_path):
    script = Script(tmp_path, AGENT, SHOP_TOKEN=TOKEN, DATABASE_URL=URL, REGION="north", AWS_PROFILE="production")
    return script, script.record("live.json")["clerk"]


def test_the_recorded_runs_credentials_are_not_there(tmp_path):
    """Import-time and late reads find a placeholder, the run itself its masks, and the replay is the same."""
    script, run = recorded(tmp_path)
    assert json.loads((tmp_path / "live.json").read_text())[0] == TOKEN
    verdict = script.replay(run, "replayed.json", allow_write=[tmp_path])
    assert_same(verdict)
    text = (tmp_path / "replayed.json").read_text()
    assert "hunter22" not in text
    assert TOKEN not in text
    at_import, _, late, names = json.loads(text)
    assert at_import == late == "replay-placeholder"
    assert "AWS_PROFILE" not in names


def test_an_identity_of_its_own_reaches_the_code_and_no_disk(tmp_path):
    """A value of `identity` is what the code reads, under the same masks, and lies in no file of the lake."""
    script, run = recorded(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    verdict = script.replay(
        run, "out/replayed.json", allow_write=[out], identity={"SHOP_TOKEN": OWN, "SHOP_NAME": "nobody-at-all-1"}
    )
    at_import, answer, _, _ = json.loads((out / "replayed.json").read_text())
    assert at_import == answer[1] == OWN
    assert OWN not in verdict.to_json()
    script.seal()
    for path in script.lake.rglob("*"):
        if path.is_file():
            assert OWN.encode() not in path.read_bytes(), path
