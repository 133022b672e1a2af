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


OLLAMA = "http://127.0.0.1:11434/api"
PROMPT = b'{"model":"m","prompt":"hi"}'


@pytest.mark.parametrize(
    ("url", "body", "name", "provider"),
    [
        ("https://api.cohere.com/v2/chat", CHAT, "cohere.chat", "cohere"),
        ("https://api.cohere.ai/v1/chat", b'{"message":"hi"}', "cohere.chat_v1", "cohere"),
        ("https://api.writer.com/v1/chat", CHAT, "openai.chat_completions", "writer"),
        (f"{OLLAMA}/chat", CHAT, "ollama.chat", "ollama"),
        (f"{OLLAMA}/generate", PROMPT, "ollama.generate", "ollama"),
        ("https://ollama.com/api/chat", CHAT, "ollama.chat", "ollama"),
        ("https://api.openai.com/v1/completions", PROMPT, "openai.completions", "openai"),
        ("http://127.0.0.1:8080/v1/completions", PROMPT, "openai.completions", "openai"),
        ("https://x.openai.azure.com/openai/deployments/d/completions?api-version=1", PROMPT, "openai.completions",
         "azure.ai.openai"),
        ("https://api.anthropic.com/v1/complete", PROMPT, "anthropic.complete", "anthropic"),
        ("https://x.us-east-1.aws.endpoints.huggingface.cloud/", b'{"inputs":"hi"}', "huggingface.text_generation",
         "huggingface"),
        ("http://127.0.0.1:8080/generate_stream", b'{"inputs":"hi","parameters":{}}', "huggingface.text_generation",
         "huggingface"),
        ("https://api.mistral.ai/v1/fim/completions", PROMPT, "openai.completions", "mistral_ai"),
        ("https://api.mistral.ai/v1/agents/completions", CHAT, "openai.chat_completions", "mistral_ai"),
        ("https://api.mistral.ai/v1/chat/completions#stream", CHAT, "openai.chat_completions", "mistral_ai"),
        ("https://router.huggingface.co/novita/v3/openai/chat/completions", CHAT, "openai.chat_completions",
         "huggingface"),
        ("https://a-b.snowflakecomputing.com/api/v2/cortex/v1/chat/completions", CHAT, "openai.chat_completions",
         "snowflake"),
    ],
)  # fmt: skip
def test_other_protocols_share_endings_and_are_told_apart_by_the_body(url, body, name, provider):
    """`/chat` and `/completions` are spoken in several ways: the members of the request decide."""
    protocol = recognise("POST", url, [], body)
    assert protocol is PROTOCOLS[name]
    assert protocol.provider(url) == provider


@pytest.mark.parametrize(
    ("url", "body"),
    [
        ("https://app.example/api/chat", b'{"messages":[{"role":"user","parts":[]}]}'),
        ("https://app.example/api/generate", b'{"prompt":"an image"}'),
        ("https://app.example/generate", b'{"inputs":[1,2]}'),
        ("https://chat.example/v1/chat", b'{"text":"hi"}'),
        ("https://chat.example/v2/chat", b'{"text":"hi"}'),
        ("https://forms.example/completions", b'{"course":7}'),
    ],
)
def test_an_applications_own_paths_are_not_a_providers(url, body):
    """`/api/chat` without a model, or a body of another shape, is the application's own."""
    assert recognise("POST", url, [], body) is None


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
