"""`agent-replay ask`: one recorded question put to a model again."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.model import Fidelity
from otel_agent_replay.replay.audit import AuditLog
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.provider import Reply, refused_url
from otel_agent_replay.testing.replies import openai_chat_stream
from tests.support.asked_runs import FakeModel, asked_run, body_of, document, invoke, lake_of, question, with_fidelity
from tests.support.lake_runs import RunMaker

DECISIONS = [("search", {"q": "x", "n": 1}), ("refund", {"order": 7}), "Done."]


@pytest.fixture
def lake(tmp_path):
    return lake_of(tmp_path / "lake", [asked_run(0, DECISIONS)])


def ask(lake, step, provider_url, *more, candidate="model=new,"):
    run = asked_run(0, DECISIONS).run.run_id.hex()
    return invoke(lake, "ask", run, "--step", step, "--candidate", f"{candidate}base_url={provider_url}/v1", *more)


def test_an_answer_that_does_the_same_is_the_same(lake):
    """The recorded request goes out byte for byte but for the model; the same action gives exit code 0."""
    with ScriptedProvider(FakeModel({question(0, 0): ("search", {"n": 1, "q": "x"})})) as provider:
        done = ask(lake, 1, provider.url, "--json")
        sent = provider.seen[0].json
    assert done.exit_code == 0
    assert sent == {"model": "new", "messages": [{"role": "user", "content": question(0, 0)}], "temperature": 0}
    found = document(done)
    assert found["schema"] == "agent-replay/ask"
    assert found["recorded"]["tool_calls"] == [{"name": "search", "arguments": {"q": "x", "n": 1}}]
    (candidate,) = found["candidates"]
    assert (candidate["answers"], candidate["agreeing"]) == (1, 1)
    assert candidate["actions"][0]["match"] == "same"


def test_a_difference_is_shown_where_it_is(lake):
    """Other arguments, other tools, text for a tool: each is named, and gives exit code 1."""
    with ScriptedProvider(FakeModel({question(0, 0): ("search", {"q": "y", "n": 1})})) as provider:
        done = ask(lake, 1, provider.url)
    assert done.exit_code == 1
    assert 'other arguments; search(q): "x" -> "y"' in done.stdout
    assert "0 of 1 agree" in done.stdout


def test_repeats_tell_chance_from_habit(lake):
    """Of ten answers the distinct actions are counted, the most frequent first, and it is said how typical it was."""
    answers = iter([("refund", {"order": 7}), *["I must not refund."] * 9])
    with ScriptedProvider(FakeModel({}, otherwise=lambda _: next(answers))) as provider:
        done = ask(lake, 3, provider.url, "--repeat", 10, "--parallel", 1)
    assert done.exit_code == 1
    assert "1 of 10 agree" in done.stdout
    assert "the recorded answer is a rare one: chance" in done.stdout
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert [line[:3] for line in lines if " x  " in line] == ["9 x", "1 x"]
    with ScriptedProvider(FakeModel({}, otherwise=lambda _: ("refund", {"order": 7}))) as provider:
        done = ask(lake, 3, provider.url, "--repeat", 10)
    assert done.exit_code == 0
    assert "10 of 10 agree" in done.stdout
    assert "systematic" in done.stdout


def test_other_words_are_the_same_action_unless_more_is_asked(lake):
    """Text for text agrees with its likeness stated; with --text-likeness it must be as alike as that."""
    with ScriptedProvider(FakeModel({}, otherwise=lambda _: "It is done.")) as provider:
        lenient, strict = ask(lake, 5, provider.url), ask(lake, 5, provider.url, "--text-likeness", "0.9")
    assert (lenient.exit_code, strict.exit_code) == (0, 1)
    assert "other words; likeness of the text 0." in lenient.stdout


def test_several_candidates_and_the_baseline_stand_side_by_side(lake):
    """Each candidate's answers are compared with the recorded one; the recorded model is asked at its own address."""
    with ScriptedProvider(FakeModel({}, otherwise=lambda _: "No.")) as one, ScriptedProvider([Reply(b"{}")]) as other:
        done = ask(
            lake, 5, one.url, "--candidate", f"model=second,base_url={other.url}/v1", "--set", "temperature=1", "--json"
        )
    found = document(done)
    assert [candidate["candidate"] for candidate in found["candidates"]] == [
        f"model=new, temperature, at {one.url}/v1", f"model=second, temperature, at {other.url}/v1",
    ]  # fmt: skip
    assert other.seen[0].json["temperature"] == 1
    assert done.exit_code == 125, "an answer without a choice is none"


def test_what_was_not_answered_cannot_be_judged(lake):
    """A provider's refusal and an endpoint that is not there give exit code 125 with their own words."""
    with ScriptedProvider([Reply.of_json({"error": {"message": "no such model"}}, status=404)]) as provider:
        done = ask(lake, 1, provider.url)
    assert done.exit_code == 125
    assert "no such model" in done.stdout
    with refused_url() as url:
        assert ask(lake, 1, url, candidate="").exit_code == 125


def test_a_step_that_cannot_be_asked_is_refused_with_the_reason(lake, tmp_path):
    """No such step, a tool's step, and a recording of less than exchanges are told apart."""
    assert "is no model call but tool 'search'" in ask(lake, 2, "http://127.0.0.1:1").stderr
    missing = ask(lake, 99, "http://127.0.0.1:1")
    assert missing.exit_code == 125
    assert "its model steps: 1, 3, 5" in missing.stderr
    poor = lake_of(tmp_path / "poor", [with_fidelity(asked_run(0, DECISIONS), Fidelity.MESSAGES)])
    done = ask(poor, 1, "http://127.0.0.1:1")
    assert done.exit_code == 125
    assert "fidelity `messages`" in done.stderr


def test_a_key_comes_from_the_env_file_and_is_kept_nowhere(lake, tmp_path):
    """The key is sent in the header, and is in no file of the lake afterwards, the audit log included."""
    (tmp_path / "keys").write_text("MY_KEY=sk-very-secret-0123456789\n")
    with ScriptedProvider([Reply(body_of(DECISIONS[0]))]) as provider:
        done = ask(lake, 1, provider.url, "--env-file", tmp_path / "keys", candidate="key_env=MY_KEY,")
        assert provider.seen[0].header("authorization") == "Bearer sk-very-secret-0123456789"
    assert done.exit_code == 0
    kept = [path for path in lake.rglob("*") if path.is_file() and b"very-secret" in path.read_bytes()]
    assert kept == []
    assert "very-secret" not in done.output


def test_streams_are_compared_whole(tmp_path):
    """A recorded stream and a new one, cut elsewhere, are the same action when they say the same."""
    maker = RunMaker(0)
    maker.model([{"role": "user", "content": "Hi"}], openai_chat_stream(["Hel", "lo"]).body, "text/event-stream")
    lake = lake_of(tmp_path / "lake", [maker.run()])
    with ScriptedProvider([openai_chat_stream(["H", "ell", "o"], cuts=range(0, 900, 7))]) as provider:
        done = ask(lake, 1, provider.url, "--json")
    assert done.exit_code == 0
    (candidate,) = document(done)["candidates"]
    assert candidate["actions"][0]["action"]["text"] == "Hello"


def test_asking_is_entered_in_the_audit_log(lake, tmp_path):
    """Who asked which run again, and where it went, is on record before the question goes."""
    entries = []

    def script(_request):
        entries.extend(AuditLog(lake).entries())
        return Reply(body_of("Done."))

    (tmp_path / "keys").write_text("MY_KEY=secret-of-mine\nOTHER=1\n")
    with ScriptedProvider(script) as provider:
        ask(lake, 5, provider.url, "--env-file", tmp_path / "keys", candidate="key_env=MY_KEY,")
        port = provider.port
    (entry,) = entries
    assert "MY_KEY" in entry["allowed"]["identity"]
    assert "OTHER" not in entry["allowed"]["identity"]
    assert "secret-of-mine" not in str(entry)
    assert (entry["action"], entry["run_id"]) == ("ask", asked_run(0, DECISIONS).run.run_id.hex())
    assert entry["allowed"]["endpoints"] == [f"127.0.0.1:{port}"]
    assert AuditLog(lake).check().first_break is None


def test_a_masked_request_says_so(tmp_path):
    """A request in which redaction replaced something is asked with what stands there, and that is said."""
    run = asked_run(0, ["Done."])
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "I am [masked]**"}]}).encode()
    import dataclasses

    from otel_agent_replay.model import Payload

    spans = list(run.spans)
    call = dataclasses.replace(spans[1].node.call, request=Payload.of(body, "application/json"))
    spans[1] = dataclasses.replace(spans[1], node=dataclasses.replace(spans[1].node, call=call))
    lake = lake_of(tmp_path / "lake", [dataclasses.replace(run, spans=tuple(spans))])
    with ScriptedProvider([Reply(body_of("Done."))]) as provider:
        done = ask(lake, 1, provider.url, candidate="")
        assert provider.seen[0].body == body
    assert done.exit_code == 0
    assert "redaction replaced" in done.stderr
