"""Recognition of Google's and Amazon's protocols: any host, the end of the path, the shape of the body."""

from __future__ import annotations

import pytest

from otel_agent_replay.protocols import PROTOCOLS, recognise

GEMINI = "https://generativelanguage.googleapis.com/v1beta"
VERTEX = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google"
AWS = "https://bedrock-runtime.us-east-1.amazonaws.com:443/model/amazon.nova-micro-v1%3A0"
CONTENTS = b'{"contents":[]}'
MESSAGES = b'{"messages":[]}'


@pytest.mark.parametrize(
    ("url", "body", "name", "provider", "operation"),
    [
        (GEMINI + "/models/gemini-2.5-flash:generateContent", CONTENTS,
         "google.generate_content", "gcp.gemini", "generate_content"),
        (GEMINI + "/models/gemini-2.5-flash:streamGenerateContent?alt=sse", CONTENTS,
         "google.generate_content", "gcp.gemini", "generate_content"),
        (VERTEX + "/models/gemini-2.5-pro:streamGenerateContent", CONTENTS,
         "google.generate_content", "gcp.vertex_ai", "generate_content"),
        ("https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/7:generateContent", CONTENTS,
         "google.generate_content", "gcp.vertex_ai", "generate_content"),
        ("http://127.0.0.1:9/v1beta/models/m:generateContent", CONTENTS,
         "google.generate_content", "gcp.gemini", "generate_content"),
        (GEMINI + "/interactions", b'{"model":"m","input":"hi"}', "google.interactions", "gcp.gemini", "chat"),
        (GEMINI + "/interactions", b'{"agent":"a","input":[]}', "google.interactions", "gcp.gemini", "chat"),
        (AWS + "/converse", MESSAGES, "aws.bedrock_converse", "aws.bedrock", "chat"),
        (AWS + "/converse-stream", MESSAGES, "aws.bedrock_converse", "aws.bedrock", "chat"),
        (AWS + "/invoke", b'{"prompt":"hi"}', "aws.bedrock_invoke", "aws.bedrock", "chat"),
        (AWS + "/invoke-with-response-stream", b'{"inputText":"hi"}', "aws.bedrock_invoke", "aws.bedrock", "chat"),
        ("http://127.0.0.1:4566/model/m/invoke", MESSAGES, "aws.bedrock_invoke", "aws.bedrock", "chat"),
    ],
)  # fmt: skip
def test_a_cloud_model_call_is_recognised(url, body, name, provider, operation):
    """Path ending and body shape decide; the host only names the provider."""
    protocol = recognise("POST", url, [], body)
    assert protocol is PROTOCOLS[name]
    assert (protocol.provider(url), protocol.operation) == (provider, operation)


@pytest.mark.parametrize(
    ("url", "body"),
    [
        (GEMINI + "/models/gemini-2.5-flash:countTokens", CONTENTS),
        (GEMINI + "/models/m:generateContent", b'{"instances":[]}'),
        (GEMINI + "/models/m:embedContent", b'{"content":{}}'),
        (GEMINI + "/interactions/v1_abc/cancel", b'{"input":"x","model":"m"}'),
        ("https://shop.example/interactions", b'{"input":"click"}'),
        (AWS + "/count-tokens", b'{"input":{"converse":{"messages":[]}}}'),
        (AWS + "/invoke", b'{"taskType":"TEXT_IMAGE"}'),
        ("https://chains.example/my-chain/invoke", b'{"messages":[]}'),
        ("https://tools.example/converse", MESSAGES),
    ],
)
def test_other_calls_to_such_paths_are_not(url, body):
    """Counting, embedding, images and applications' own endings are plain HTTP."""
    assert recognise("POST", url, [], body) is None
