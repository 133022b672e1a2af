"""A recorded run becomes a case: personal data made up, everything sealed, and the case replays exactly."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from otel_agent_replay.casebook.folder import open_case
from otel_agent_replay.cli.main import main
from otel_agent_replay.gate import Case
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Kind
from otel_agent_replay.payload.synthetic import is_luhn
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import entry_command, replay_command
from otel_agent_replay.replay.verdict import VerdictStatus
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream
from tests.support.agents import PATIENCE_S, Script

pytest.importorskip("openai")

MAIL, CARD, PHONE, NAME = "ann.müller@acme-mail.de", "4111 1111 1111 1111", "+49 170 1234567", "Änne Müller-Lüdenscheid"
SECRETS = (MAIL, "acme-mail", CARD, CARD.replace(" ", ""), PHONE, "1701234567", NAME, "Lüdenscheid", "M\\u00fcller")
OWN = "help@shop.example"

SOURCE = """
import json, os, sys
from urllib.parse import quote
import httpx, openai
import otel_agent_replay as replay

SYSTEM = "You are the desk. Write to help@shop.example."

@replay.tool(side_effect="read")
def customer(mail):
    return {"customer_name": "Änne Müller-Lüdenscheid", "phone": "+49 170 1234567", "mail": mail.upper()}

@replay.tool(side_effect="write")
def refund(card, mail, note):
    return json.dumps({"to": card.replace(" ", ""), "mail": mail, "note": note})

@replay.agent
def desk(mail, card):
    client = openai.OpenAI(base_url=os.environ["SERVER"] + "/v1", api_key="sk-none")
    found = customer(mail)
    first = found['customer_name'].split()[0]
    greeting = f"Dear {found['customer_name']} ({first}), call {found['phone']}"
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": greeting + " " + mail.lower()}]
    events = client.chat.completions.create(model="m", messages=messages, stream=True)
    said = "".join(event.choices[0].delta.content or "" for event in events)
    messages.append({"role": "assistant", "content": said})
    messages.append({"role": "user", "content": json.dumps({"said": said, "name": found["customer_name"]})})
    answer = client.chat.completions.create(model="m", messages=messages)
    call = json.loads(answer.choices[0].message.tool_calls[0].function.arguments)
    replay.checkpoint("asked", {"call": call, "mail": mail}, resumable=True)
    with httpx.Client() as http:
        http.get(os.environ["SERVER"] + "/users/" + quote(mail), params={"who": mail, "card": card})
        http.post(os.environ["SERVER"] + "/log", data={"who": mail, "name": found["customer_name"]})
    return refund(card, call["mail"], said + call["phone"])

if __name__ == "__main__":
    desk(sys.argv[1], card=sys.argv[2])
"""


def answers(request):
    if not request.path.endswith("/chat/completions"):
        return openai_chat("logged", coding="gzip")
    if request.json.get("stream"):
        return openai_chat_stream(
            ["Your mail ann.mü", "ller@acme", "-mail.de is known, Än", "ne Müller-L", "üdenscheid."]
        )
    arguments = json.dumps({"mail": MAIL, "phone": PHONE.replace(" ", "")})
    return openai_chat(None, tool_calls=[{"id": "call_1", "name": "refund", "arguments": arguments}], coding="gzip")


def run(*arguments):
    """Call the command line; return its exit code and its output."""
    result = CliRunner().invoke(main, [str(one) for one in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The script, and its run."""
    with ScriptedProvider(answers) as provider:
        script = Script(tmp_path_factory.mktemp("desk"), SOURCE, name="desk_app.py", SERVER=provider.url)
        runs = script.record(MAIL, CARD)
    return script, runs["desk"]


@pytest.fixture(scope="module")
def case(recorded):
    """The folder of a case made of that run."""
    script, stored = recorded
    folder = script.folder / "cases"
    code, output = run("case", "add", stored.run.run_id.hex(), "--lake", script.lake, "--into", folder, "--name", "one")
    assert code == 0, output
    assert "1 of sort card" in output
    return folder / "one"


def everything_in(folder) -> str:
    """All that the case says, decompressed: its files, every payload, every span."""
    lake = Lake(folder / "lake")
    found = [path.read_text() for path in folder.glob("*.*")]
    for summary in lake.runs():
        stored = lake.load(summary.run.run_id)
        found.append(repr(stored.run))
        for item in stored.spans:
            found.append(repr(item))
        for digest in stored.kept:
            found.append(stored.payload(digest).decode("utf-8", "replace"))
    return "\n".join(found)


def test_no_personal_value_is_left(case):
    """Neither a file, a payload, an attribute, a URL nor a header of the case holds a value that came in."""
    text = everything_in(case)
    assert "desk" in text
    for secret in (*SECRETS, MAIL.upper(), "ann.m%C3%BCller"):
        assert secret not in text, secret
    assert OWN in text


def test_a_value_is_the_same_made_up_one_everywhere(case):
    """The mail of the input, of the stream's pieces, of the tool's arguments and result, of query and form is one."""
    lake = Lake(case / "lake")
    stored = lake.load(lake.runs()[0].run.run_id)
    tools = [node for node in stored.nodes if node.kind is Kind.TOOL]
    mail = json.loads(stored.payload(tools[0].call.request.digest))["mail"]
    arguments = json.loads(stored.payload(tools[1].call.request.digest))
    result = json.loads(json.loads(stored.payload(tools[1].outcome.result.digest)))
    assert mail.endswith(".test")
    assert len(mail) == len(MAIL)
    assert arguments["mail"] == result["mail"] == mail
    assert mail in arguments["note"]
    assert result["to"] == arguments["card"].replace(" ", "")
    assert is_luhn(result["to"])
    customer = json.loads(stored.payload(tools[0].outcome.result.digest))
    assert customer["mail"] == mail.upper()
    assert customer["customer_name"] in arguments["note"]
    assert arguments["note"].endswith(customer["phone"].replace(" ", ""))


def test_the_case_replays_exactly(recorded, case):
    """The agent's real code, called with the made-up input and with no server, goes the recorded way to its end."""
    script, stored = recorded
    lake = Lake(case / "lake")
    enclosure = Enclosure(case / "lake", environment=script.environment, directory=script.folder, timeout_s=PATIENCE_S)
    verdict = replay_command(lake.load(stored.run.run_id).run, entry_command("desk_app:desk"), enclosure=enclosure)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.output_same
    assert verdict.input_same
    assert verdict.never_asked == ()
    assert open_case(case).tampering == []


def test_what_the_code_says_itself_stays_and_is_told(recorded, tmp_path):
    """An address of the system prompt is left as it is, and named by its first letters."""
    script, stored = recorded
    code, output = run(
        "case", "add", stored.run.run_id.hex(), "--lake", script.lake, "--into", tmp_path, "--name", "two", "--json"
    )
    assert code == 0, output
    assert json.loads(output)["left"] == ["he... (email)"]
    assert set(json.loads(output)["replaced"]) == {"email", "card", "phone", "text"}


def test_fields_and_patterns_of_the_user_are_replaced_too(recorded, tmp_path):
    """--redact-field and --redact-pattern name more values; with one key two cases get the same made-up ones."""
    script, stored = recorded
    for name in ("one", "two"):
        options = ["--redact-field", "^note$", "--redact-own"]
        command = ["case", "add", stored.run.run_id.hex(), "--lake", script.lake, "--into", tmp_path, "--name", name]
        result = CliRunner().invoke(main, [*map(str, command), *options], env={"AGENT_REPLAY_HASH_KEY": "one key"})
        assert result.exit_code == 0, result.output
        assert OWN not in everything_in(tmp_path / name)
    lakes = [Lake(tmp_path / name / "lake").load(stored.run.run_id) for name in ("one", "two")]
    assert lakes[0].manifest_digest == lakes[1].manifest_digest != stored.manifest_digest


def test_a_case_may_keep_its_values(recorded, tmp_path):
    """With --no-redact the kept run is the recorded one, digest by digest."""
    script, stored = recorded
    code, output = run(
        "case", "add", stored.run.run_id.hex(), "--lake", script.lake, "--into", tmp_path, "--name", "x", "--no-redact"
    )
    assert code == 0, output
    assert Lake(tmp_path / "x" / "lake").load(stored.run.run_id).manifest_digest == stored.manifest_digest


def test_the_skeleton_holds_of_its_run_and_the_manifest_names_all(case):
    """case.yaml parses, all of it holds of the run, and the manifest has every part with a digest."""
    opened = open_case(case)
    assert [one for one in opened.kept.check(opened.case) if one.state.value != "held"] == []
    parts = {part.what for part in opened.manifest.parts}
    wanted = (
        "bundle packages policy_version index_snapshot model_snapshot route provider_events tool_artifact test_input"
    )
    assert parts >= set(wanted.split())
    assert all(re.fullmatch("[0-9a-f]{64}", part.sha256) for part in opened.manifest.parts)
    rules = {one.rule.value for one in opened.case.invariants}
    assert rules >= {"must_call", "order", "only", "final_state", "outcome", "budget"}


def test_a_folder_that_holds_a_case_is_not_written_over(recorded, case):
    """Adding into a folder with a case.yaml is refused."""
    script, stored = recorded
    code, output = run(
        "case", "add", stored.run.run_id.hex(), "--lake", script.lake, "--into", case.parent, "--name", case.name
    )
    assert code == 2
    assert "is there already" in output
    assert Case.load(case).run == stored.run.run_id.hex()


def test_a_case_that_was_not_written_whole_is_not_added_to(recorded, tmp_path):
    """Where a full disk or a kill left a lake without a case.yaml, a second try names the folder."""
    script, stored = recorded
    (tmp_path / "half" / "lake").mkdir(parents=True)
    code, output = run(
        "case", "add", stored.run.run_id.hex(), "--lake", script.lake, "--into", tmp_path, "--name", "half"
    )
    assert code == 2
    assert f"{tmp_path / 'half'} holds a case that was not written whole" in output
