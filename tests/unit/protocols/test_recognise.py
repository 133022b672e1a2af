"""Recognition from the exchange itself: path ending and body, any host."""

from __future__ import annotations

import pytest

from otel_agent_replay.protocols import PROTOCOLS, recognise

AZURE = "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"
VERTEX = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/"
CHAT = b'{"model":"m","messages":[]}'


@pytest.mark.parametrize(
    ("url", "body", "name", "provider"),
    [
        ("https://api.openai.com/v1/chat/completions", CHAT, "openai.chat_completions", "openai"),
        (AZURE, CHAT, "openai.chat_completions", "azure.ai.openai"),
        ("http://127.0.0.1:8000/v1/chat/completions", CHAT, "openai.chat_completions", "openai"),
        ("https://api.groq.com/openai/v1/chat/completions", CHAT, "openai.chat_completions", "groq"),
        ("https://api.deepseek.com/chat/completions", CHAT, "openai.chat_completions", "deepseek"),
        ("https://openrouter.ai/api/v1/responses", b'{"input":"x"}', "openai.responses", "openrouter"),
        ("https://api.openai.com/v1/responses", b'{"prompt":{"id":"p"}}', "openai.responses", "openai"),
        ("https://api.anthropic.com/v1/messages?beta=true", CHAT, "anthropic.messages", "anthropic"),
        ("https://gateway.corp/anthropic/v1/messages", b' {"messages":[]}', "anthropic.messages", "anthropic"),
        (VERTEX + "anthropic/models/claude-sonnet-4@20250514:streamRawPredict",
         b'{"anthropic_version":"vertex-2023-10-16","messages":[]}', "anthropic.messages", "gcp.vertex_ai"),
        (VERTEX + "mistralai/models/mistral-large:rawPredict", CHAT, "openai.chat_completions", "gcp.vertex_ai"),
    ],
)  # fmt: skip
def test_a_model_call_is_recognised_whatever_the_host(url, body, name, provider):
    """Path ending and body shape decide; the host only names the provider."""
    protocol = recognise("post", url, [], body)
    assert protocol is PROTOCOLS[name]
    assert (protocol.provider(url), protocol.operation) == (provider, "chat")


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("GET", "https://api.openai.com/v1/responses", b'{"input":"x"}'),
        ("POST", "https://api.openai.com/v1/embeddings", b'{"input":"x"}'),
        ("POST", "https://api.anthropic.com/v1/messages/count_tokens", CHAT),
        ("POST", "https://api.openai.com/v1/threads/t/messages", b'{"role":"user","content":"x"}'),
        ("POST", "https://forms.example/forms/7/responses", b'{"answer":"x"}'),
        ("POST", "https://api.openai.com/v1/chat/completions", b"not json"),
        ("POST", "https://api.openai.com/v1/chat/completions", b""),
        ("POST", "https://shop.example/orders?next=/v1/chat/completions", CHAT),
    ],
)
def test_other_calls_are_not(method, url, body):
    """A similar path, another method or a body of another shape is plain HTTP."""
    assert recognise(method, url, [], body) is None


def test_a_host_that_ends_like_a_provider_is_not_that_provider():
    """`notapi.x.ai.example` and `evilopenrouter.ai` are strangers."""
    assert PROTOCOLS["openai.chat_completions"].provider("https://api.x.ai.example/v1/chat/completions") == "openai"
    assert PROTOCOLS["openai.chat_completions"].provider("https://evilopenrouter.ai/v1/chat/completions") == "openai"
