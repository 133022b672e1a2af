"""What is sent to a candidate: address, body, headers, key; and what is not."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.protocols import ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, PROTOCOLS
from otel_agent_replay.replay.ask.answer import Answer
from otel_agent_replay.replay.ask.candidate import Candidate
from otel_agent_replay.replay.ask.destination import endpoint_of
from otel_agent_replay.replay.ask.keys import KEY_VARIABLES
from otel_agent_replay.replay.ask.request import RecordedStep

BODY = b'{ "model" : "gpt-4o", "messages": [{"role":"user","content":"Hi"}], "temperature": 0 }'
ENVIRONMENT = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-anthropic", "MY_KEY": "mine"}


def step(url="https://api.openai.com/v1/chat/completions", protocol=OPENAI_CHAT, body=BODY, headers=()):
    answer = Answer(200, "application/json", b"{}")
    return RecordedStep(
        b"r" * 16, 3, protocol, protocol.provider(url), "gpt-4o", url, tuple(headers), body, answer, False
    )


def candidate(text="", *settings):
    return Candidate.from_arguments(text, settings, read=lambda path: f"text of {path}")


def sent(text="", *settings, **more):
    return candidate(text, *settings).question(step(**more), ENVIRONMENT)


def test_without_a_change_the_recorded_bytes_go_to_the_recorded_address():
    """The body is the recorded one byte for byte, spaces and all; the key comes from the environment."""
    question = sent(headers=[("content-type", "application/json"), ("x-team", "support")])
    assert question.body == BODY
    assert question.url == "https://api.openai.com/v1/chat/completions"
    assert question.headers == (
        ("content-type", "application/json"), ("x-team", "support"), ("authorization", "Bearer sk-openai"),
    )  # fmt: skip
    assert candidate().name == "the recorded model again"


def test_only_the_changed_part_of_a_body_changes():
    """Model, prompt and settings are edited in place; every other byte stays."""
    question = sent("model=gpt-5-mini", "temperature=1")
    assert question.body == BODY.replace(b"gpt-4o", b"gpt-5-mini").replace(b'ure": 0', b'ure": 1')
    assert question.model == "gpt-5-mini"
    asked = json.loads(sent("", "prompt=@new.txt").body)
    assert asked["messages"][0] == {"role": "system", "content": "text of new.txt"}


@pytest.mark.parametrize(
    ("protocol", "base", "expected"),
    [
        (OPENAI_CHAT, "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions"),
        (OPENAI_CHAT, "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"),
        (OPENAI_CHAT, "http://h/x/chat/completions", "http://h/x/chat/completions"),
        (OPENAI_RESPONSES, "https://h/v1", "https://h/v1/responses"),
        (ANTHROPIC_MESSAGES, "https://h", "https://h/v1/messages"),
        (ANTHROPIC_MESSAGES, "https://h/v1", "https://h/v1/messages"),
    ],
)
def test_a_base_url_gets_the_path_that_clients_append(protocol, base, expected):
    """A base URL is what clients of the protocol take for one, with or without the version or the whole path."""
    question = sent(f"base_url={base}", protocol=protocol)
    assert question.url == expected
    assert endpoint_of(expected) in question.allowed


def test_another_model_is_put_where_the_address_names_it():
    """An Azure deployment and a model in a path follow the candidate's model."""
    azure = "https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"
    question = candidate("model=gpt-5").question(step(azure), {"AZURE_OPENAI_API_KEY": "k"})
    assert question.url == azure.replace("/gpt-4o/", "/gpt-5/")
    assert dict(question.headers)["api-key"] == "k"


def test_a_key_goes_to_its_own_provider_or_where_it_was_named_for():
    """No key is sent to a host that nobody knows; a variable that the user names is sent where they say."""
    headers = dict(sent("base_url=http://127.0.0.1:8000/v1").headers)
    assert "authorization" not in headers
    assert dict(sent("base_url=https://gateway.example/v1,key_env=MY_KEY").headers)["authorization"] == "Bearer mine"
    claude = sent(url="https://api.anthropic.com/v1/messages", protocol=ANTHROPIC_MESSAGES)
    assert dict(claude.headers)["x-api-key"] == "sk-anthropic"
    assert dict(claude.headers)["anthropic-version"] == "2023-06-01"
    named = sent("base_url=http://127.0.0.1:1,key_env=MY_KEY", protocol=ANTHROPIC_MESSAGES)
    assert dict(named.headers)["x-api-key"] == "mine"
    assert not any("sk-openai" in repr(question) for question in (sent(), named)), "a key is never shown"


def test_the_baseline_takes_the_key_along_only_to_its_own_endpoint():
    """The recorded model again has the candidate's key where both go to the recorded endpoint, and else none of it."""
    assert candidate("model=m,key_env=MY_KEY").recorded_again() == candidate("key_env=MY_KEY")
    assert candidate("model=m,key_env=MY_KEY,base_url=http://h/v1,price=1/2").recorded_again() == candidate()


def test_a_key_that_is_not_there_is_named_before_anything_is_sent():
    """The error names the variable to set, for a provider's host and for a variable of the user's."""
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        candidate().question(step(), {})
    with pytest.raises(ConfigurationError, match="NO_KEY"):
        candidate("key_env=NO_KEY").question(step(), ENVIRONMENT)
    assert all(KEY_VARIABLES.values())


def test_credentials_and_traces_of_the_recording_are_not_sent():
    """What identifies the recorded call or was masked stays; a foreign host gets only what the protocol needs."""
    recorded = [
        ("Host", "api.openai.com"), ("Content-Length", "12"), ("content-type", "application/json"),
        ("traceparent", "00-1-2-01"), ("idempotency-key", "k"), ("authorization", "[masked]"), ("x-team", "support"),
        ("x-stainless-retry-count", "0"), ("content-encoding", "gzip"), ("openai-beta", "assistants=v2"),
        ("x-key", "[masked]"),
    ]  # fmt: skip
    names = [name for name, _ in sent(headers=recorded).headers]
    assert names == ["content-type", "x-team", "openai-beta", "authorization"]
    elsewhere = [name for name, _ in sent("base_url=http://127.0.0.1:8000/v1", headers=recorded).headers]
    assert elsewhere == ["content-type", "openai-beta"]
    masked = sent("key_env=MY_KEY", url="https://h.example/v1/chat/completions?key=masked&alt=sse")
    assert masked.url == "https://h.example/v1/chat/completions?alt=sse"


@pytest.mark.parametrize(
    ("text", "url", "spoken"),
    [
        (
            "model=claude,base_url=https://api.anthropic.com",
            "https://api.anthropic.com/v1/messages",
            "anthropic.messages",
        ),
        (
            "model=gemini-2.5-pro,base_url=https://generativelanguage.googleapis.com,key_env=MY_KEY",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent",
            "google.generate_content",
        ),
        (
            "model=m,base_url=http://127.0.0.1:1,api=anthropic.messages",
            "http://127.0.0.1:1/v1/messages",
            "anthropic.messages",
        ),
    ],
)
def test_a_candidate_of_another_protocol_is_asked_in_its_words(text, url, spoken):
    """What is known of the host, or api=, says what it speaks; the request, the path and the headers follow."""
    question = sent(text, headers=[("openai-beta", "x"), ("accept", "text/event-stream"), ("x-team", "support")])
    assert (question.url, question.protocol.name) == (url, spoken)
    assert question.protocol.request_messages(question.body).messages[-1]["parts"] == [
        {"type": "text", "content": "Hi"}
    ]
    assert {name for name, _ in question.headers} <= {
        "content-type",
        "anthropic-version",
        "x-api-key",
        "x-goog-api-key",
    }


def test_what_another_protocol_has_no_word_for_is_named():
    """A translated question says what it does not ask for; one in its own protocol loses nothing."""
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "seed": 7}).encode()
    translated = sent("model=claude,base_url=https://api.anthropic.com", body=body)
    assert any("seed" in what for what in translated.lost)
    assert sent("model=gpt-5", body=body).lost == ()


def test_a_translated_question_can_be_edited_in_its_own_protocol():
    """Edits come after the translation: the prompt goes where the candidate's protocol keeps it."""
    asked = json.loads(sent("model=claude,base_url=https://api.anthropic.com", "prompt=Be brief.").body)
    assert (asked["model"], asked["system"]) == ("claude", "Be brief.")


def test_another_protocol_needs_a_model_of_its_own_and_an_address():
    """Without a model or an address of its own, and for a request that cannot be translated, it is refused."""
    with pytest.raises(CannotJudge, match=r"openai\.chat_completions.*anthropic\.messages.*model=NAME"):
        sent("base_url=https://api.anthropic.com")
    with pytest.raises(CannotJudge, match="base_url=URL"):
        sent("model=claude,api=anthropic.messages")
    with pytest.raises(CannotJudge, match="not translated"):
        sent("model=claude,base_url=https://api.anthropic.com", protocol=PROTOCOLS["openai.completions"])
    spoken = sent("base_url=https://api.anthropic.com/v1,api=openai.chat_completions")
    assert spoken.url == "https://api.anthropic.com/v1/chat/completions"
    assert spoken.body == BODY


def test_a_model_that_the_address_names_is_not_put_into_the_body():
    """Google's requests name the model in their address: it changes there, and the recorded body stays."""
    google = PROTOCOLS["google.generate_content"]
    body = b'{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}'
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    question = sent("model=gemini-3,key_env=MY_KEY", url=url, protocol=google, body=body)
    assert question.url == url.replace("gemini-2.5-pro", "gemini-3")
    assert question.body == body
    elsewhere = sent("model=gemini-3,base_url=http://127.0.0.1:1/v1beta", url=url, protocol=google, body=body)
    assert elsewhere.url == "http://127.0.0.1:1/v1beta/models/gemini-3:streamGenerateContent?alt=sse"


def test_a_recording_without_an_address_needs_one():
    """An imported step that does not say where it went is asked only where the user says where it goes."""
    with pytest.raises(CannotJudge, match="base_url"):
        sent(url="")
    assert sent("base_url=http://127.0.0.1:8000/v1", url="").url == "http://127.0.0.1:8000/v1/chat/completions"


@pytest.mark.parametrize(
    "text",
    ["gpt-5", "model=", "colour=red", "model=a,model=b", "base_url=ftp://h", "base_url=h", "base_url=http://h/?a=b", "base_url=http://me:secret@h/v1",
     "price=1", "price=a/b", "price=-1/2", "price=1/inf", "api=telepathy", "base_url=http://h:port"],
)  # fmt: skip
def test_a_wrong_candidate_is_a_usage_error(text):
    """What is no candidate is refused, with what one looks like."""
    with pytest.raises(ConfigurationError):
        candidate(text)


def test_a_candidate_is_told_by_what_it_changes():
    """Its name and its identity have the changes; key and price are no part of who it is."""
    one = candidate("model=m,base_url=http://h/v1,key_env=A,price=1/2", "temperature=0")
    assert one.name == "model=m, temperature, at http://h/v1"
    assert one.to_json() == candidate("model=m,base_url=http://h/v1", "temperature=0").to_json()
    assert one.to_json() != candidate("model=m,base_url=http://h/v1", "temperature=1").to_json()
    with pytest.raises(ConfigurationError, match="twice"):
        candidate("model=m", "model=n")
