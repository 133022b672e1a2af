"""The model in a URL: found, read, and replaced without touching anything else."""

from __future__ import annotations

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import ANTHROPIC_MESSAGES, PROTOCOLS
from otel_agent_replay.protocols.address import address_of, deployment_of, with_model
from otel_agent_replay.protocols.request_edits import RequestEdits

GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/"
VERTEX = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models/"
AWS = "https://bedrock-runtime.us-east-1.amazonaws.com:443/model/"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
QUOTED = "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.amazon.nova-lite-v1%3A0"


@pytest.mark.parametrize(
    ("url", "model", "streams"),
    [
        (GOOGLE + "gemini-2.5-flash:generateContent", "gemini-2.5-flash", False),
        (GOOGLE + "gemini-2.5-flash:streamGenerateContent?alt=sse&key=masked", "gemini-2.5-flash", True),
        (VERTEX + "claude-sonnet-4@20250514:streamRawPredict", "claude-sonnet-4@20250514", True),
        (VERTEX + "claude-sonnet-4%4020250514:rawPredict", "claude-sonnet-4@20250514", False),
        (AWS + "amazon.nova-micro-v1%3A0/converse", "amazon.nova-micro-v1:0", False),
        (AWS + "amazon.nova-micro-v1%3A0/converse-stream", "amazon.nova-micro-v1:0", True),
        (AWS + "meta.llama3-70b-instruct-v1%3A0/invoke", "meta.llama3-70b-instruct-v1:0", False),
        (AWS + QUOTED + "/invoke-with-response-stream", PROFILE, True),
        ("http://127.0.0.1:4566/model/" + PROFILE + "/converse-stream", PROFILE, True),
    ],
)  # fmt: skip
def test_the_model_is_read_from_the_path(url, model, streams):
    """Google's, Vertex AI's and Bedrock's paths name the model, quoted or not, and whether the answer streams."""
    address = address_of(url)
    assert (address.model, address.streams) == (model, streams)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1/chat/completions",
        GOOGLE + "gemini-2.5-flash:countTokens",
        AWS + "amazon.nova-micro-v1%3A0/count-tokens",
        "https://chains.example/my-chain/invoke",
        "https://h/x?u=/model/m/invoke",
        "",
    ],
)
def test_other_paths_name_no_model(url):
    """A path of another kind has no model, and none is put into it."""
    assert address_of(url) is None
    assert with_model(url, "other") is url


def test_another_model_changes_nothing_else():
    """Only the model's own characters change: its quoting is what each provider's clients write."""
    assert (
        with_model(AWS + QUOTED + "/converse?a=b", "amazon.nova-pro-v1:0")
        == AWS + "amazon.nova-pro-v1%3A0/converse?a=b"
    )
    assert with_model(VERTEX + "a@1:rawPredict", "b@2") == VERTEX + "b@2:rawPredict"
    same = VERTEX + "claude-sonnet-4%4020250514:rawPredict"
    assert with_model(same, "claude-sonnet-4@20250514") is same


def test_claude_on_vertex_has_its_model_from_the_url():
    """The body of a `rawPredict` names no model; the facts do, and say whether the answer streams."""
    body = b'{"anthropic_version":"vertex-2023-10-16","max_tokens":5,"messages":[]}'
    found = ANTHROPIC_MESSAGES.request_facts(body, VERTEX + "claude-sonnet-4@20250514:rawPredict")
    assert found == {
        semconv.REQUEST_MODEL: "claude-sonnet-4@20250514",
        semconv.REQUEST_MAX_TOKENS: 5,
        semconv.REQUEST_STREAM: False,
    }


AZURE = "https://x.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"


def test_a_deployment_of_azure_is_the_model_where_the_body_names_none():
    """The body's own name is kept beside the deployment; without one the deployment is the model."""
    chat, completions = PROTOCOLS["openai.chat_completions"], PROTOCOLS["openai.completions"]
    assert chat.request_facts(b'{"messages":[]}', AZURE)[semconv.REQUEST_MODEL] == "my-gpt"
    assert chat.request_facts(b'{"messages":[],"model":"gpt-4o"}', AZURE)[semconv.REQUEST_MODEL] == "gpt-4o"
    assert semconv.REQUEST_MODEL not in chat.request_facts(b'{"messages":[]}', "https://h/v1/chat/completions")
    older = AZURE.replace("chat/", "")
    assert completions.request_facts(b'{"prompt":"x"}', older)[semconv.REQUEST_MODEL] == "my-gpt"


def test_another_model_on_azure_is_another_deployment():
    """Only its characters change, whatever is in the new name; a query that looks like a path is none."""
    assert with_model(AZURE, "my-gpt") is AZURE
    assert with_model(AZURE, "o4 mini\\1") == AZURE.replace("my-gpt", "o4%20mini%5C1")
    assert RequestEdits(model="gpt-5").address(AZURE) == AZURE.replace("my-gpt", "gpt-5")
    other = "https://h/v1/chat/completions?next=/openai/deployments/d/x"
    assert (with_model(other, "gpt-5"), deployment_of(other)) == (other, None)
