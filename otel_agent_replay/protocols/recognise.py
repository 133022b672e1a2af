"""Which provider protocol an exchange speaks, told from the exchange itself and not from the host.

Any server may speak these protocols: Azure, gateways, local models. So the end of the path and the shape of the body
decide. For the hot path: a URL that ends otherwise costs one string comparison, and no body is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from otel_agent_replay.protocols.anthropic_complete import ANTHROPIC_COMPLETE
from otel_agent_replay.protocols.anthropic_messages import ANTHROPIC_MESSAGES
from otel_agent_replay.protocols.bedrock_converse import BEDROCK_CONVERSE
from otel_agent_replay.protocols.bedrock_invoke import BEDROCK_INVOKE
from otel_agent_replay.protocols.cohere import COHERE_CHAT, COHERE_CHAT_V1
from otel_agent_replay.protocols.google_generate import GOOGLE_GENERATE_CONTENT
from otel_agent_replay.protocols.google_interactions import GOOGLE_INTERACTIONS
from otel_agent_replay.protocols.huggingface_generation import HUGGINGFACE_GENERATION
from otel_agent_replay.protocols.ollama import OLLAMA_CHAT, OLLAMA_GENERATE
from otel_agent_replay.protocols.openai_chat import OPENAI_CHAT
from otel_agent_replay.protocols.openai_completions import OPENAI_COMPLETIONS
from otel_agent_replay.protocols.openai_responses import OPENAI_RESPONSES
from otel_agent_replay.protocols.otel_messages import OTEL_MESSAGES
from otel_agent_replay.protocols.protocol import Protocol

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    protocol.name: protocol
    for protocol in (
        OPENAI_CHAT,
        OPENAI_RESPONSES,
        OPENAI_COMPLETIONS,
        ANTHROPIC_MESSAGES,
        ANTHROPIC_COMPLETE,
        COHERE_CHAT,
        COHERE_CHAT_V1,
        OLLAMA_CHAT,
        OLLAMA_GENERATE,
        HUGGINGFACE_GENERATION,
        GOOGLE_GENERATE_CONTENT,
        GOOGLE_INTERACTIONS,
        BEDROCK_CONVERSE,
        BEDROCK_INVOKE,
        OTEL_MESSAGES,
    )
}
"""Every protocol by its name."""

_ENDPOINTS: Final = ".endpoints.huggingface.cloud"
# The members in which makers of models on Bedrock take what the model is given.
_INVOKED: Final = (b'"messages"', b'"prompt"', b'"inputText"', b'"message"')
_Choice = Callable[[str, bytes], "Protocol | None"]


def _chat(path: str, body: bytes) -> Protocol | None:
    del path
    return OPENAI_CHAT if b'"messages"' in body else None


def _completions(path: str, body: bytes) -> Protocol | None:
    """An ending that Mistral's agents share with the older Completions."""
    return OPENAI_COMPLETIONS if b'"prompt"' in body and b'"messages"' not in body else _chat(path, body)


def _cohere_v1(path: str, body: bytes) -> Protocol | None:
    """Writer's chat has the same ending and speaks Chat Completions."""
    return COHERE_CHAT_V1 if b'"message"' in body and b'"messages"' not in body else _chat(path, body)


def _cohere(path: str, body: bytes) -> Protocol | None:
    del path
    return COHERE_CHAT if b'"messages"' in body else None


def _ollama_chat(path: str, body: bytes) -> Protocol | None:
    """Many an application has such an ending of its own: its requests name no model."""
    del path
    return OLLAMA_CHAT if b'"messages"' in body and b'"model"' in body else None


def _ollama_generate(path: str, body: bytes) -> Protocol | None:
    del path
    return OLLAMA_GENERATE if b'"prompt"' in body and b'"model"' in body else None


def _complete(path: str, body: bytes) -> Protocol | None:
    del path
    return ANTHROPIC_COMPLETE if b'"prompt"' in body else None


def _generation(path: str, body: bytes) -> Protocol | None:
    """An ending that says little: its clients always send parameters; a dedicated endpoint has no path at all."""
    known = path.endswith(_ENDPOINTS) or b'"parameters"' in body
    return HUGGINGFACE_GENERATION if known and b'"inputs"' in body else None


def _responses(path: str, body: bytes) -> Protocol | None:
    del path
    return OPENAI_RESPONSES if _any_in(body, b'"input"', b'"prompt"', b'"previous_response_id"') else None


def _messages(path: str, body: bytes) -> Protocol | None:
    del path
    return ANTHROPIC_MESSAGES if b'"messages"' in body else None


def _raw_predict(path: str, body: bytes) -> Protocol | None:
    """Vertex AI passes bodies on to models of other makers as they are."""
    if b'"anthropic_version"' in body:
        return _messages(path, body)
    return _chat(path, body)


def _generate_content(path: str, body: bytes) -> Protocol | None:
    del path
    return GOOGLE_GENERATE_CONTENT if b'"contents"' in body else None


def _interactions(path: str, body: bytes) -> Protocol | None:
    del path
    return GOOGLE_INTERACTIONS if b'"input"' in body and _any_in(body, b'"model"', b'"agent"') else None


def _converse(path: str, body: bytes) -> Protocol | None:
    return BEDROCK_CONVERSE if "/model/" in path and b'"messages"' in body else None


def _invoke(path: str, body: bytes) -> Protocol | None:
    """Applications have such endings too, but no model before them."""
    return BEDROCK_INVOKE if "/model/" in path and _any_in(body, *_INVOKED) else None


_CHOICES: Final[tuple[tuple[str, _Choice], ...]] = (
    ("/chat/completions", _chat),
    ("/completions", _completions),
    ("/responses", _responses),
    ("/v1/messages", _messages),
    ("/v2/chat", _cohere),
    ("/v1/chat", _cohere_v1),
    ("/api/chat", _ollama_chat),
    ("/api/generate", _ollama_generate),
    ("/generate", _generation),
    ("/generate_stream", _generation),
    (_ENDPOINTS, _generation),
    ("/v1/complete", _complete),
    (":rawPredict", _raw_predict),
    (":streamRawPredict", _raw_predict),
    (":generateContent", _generate_content),
    (":streamGenerateContent", _generate_content),
    ("/interactions", _interactions),
    ("/converse", _converse),
    ("/converse-stream", _converse),
    ("/invoke", _invoke),
    ("/invoke-with-response-stream", _invoke),
)


def recognise(method: str, url: str, request_headers: Any, body: bytes) -> Protocol | None:
    """The protocol of a request, or None. `request_headers` may tell more one day; today nothing is read from them.

    >>> recognise("POST", "http://127.0.0.1:8000/v1/chat/completions", [], b'{"messages": []}').name
    'openai.chat_completions'
    """
    del request_headers
    path, choose = _choice_at(url)
    if choose is None or method.upper() != "POST" or not body or body.lstrip()[:1] != b"{":
        return None
    return choose(path, body)


@lru_cache(maxsize=256)
def _choice_at(url: str) -> tuple[str, _Choice | None]:
    """The path of `url`, and the choice there if it ends like one. Kept: a service calls few again and again."""
    path = url.partition("?")[0].partition("#")[0].rstrip("/")
    return path, next((choose for ending, choose in _CHOICES if path.endswith(ending)), None)


def _any_in(body: bytes, *names: bytes) -> bool:
    return any(name in body for name in names)
