"""Which provider protocol an exchange speaks, told from the exchange itself and not from the host.

Any server may speak these protocols: Azure, gateways, local models. So the end of the path and the shape of the body
decide. For the hot path: a URL that ends otherwise costs one string comparison, and no body is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from otel_agent_replay.protocols.anthropic_messages import ANTHROPIC_MESSAGES
from otel_agent_replay.protocols.openai_chat import OPENAI_CHAT
from otel_agent_replay.protocols.openai_responses import OPENAI_RESPONSES
from otel_agent_replay.protocols.protocol import Protocol

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    protocol.name: protocol for protocol in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC_MESSAGES)
}
"""Every protocol by its name."""

_ENDINGS: Final = ("/chat/completions", "/responses", "/v1/messages")


def recognise(method: str, url: str, request_headers: Any, body: bytes) -> Protocol | None:
    """The protocol of a request, or None. `request_headers` may tell more one day; today nothing is read from them.

    >>> recognise("POST", "http://127.0.0.1:8000/v1/chat/completions", [], b'{"messages": []}').name
    'openai.chat_completions'
    """
    del request_headers
    path = url.partition("?")[0].partition("#")[0].rstrip("/")
    if not path.endswith(_ENDINGS) or method.upper() != "POST" or not body or body.lstrip()[:1] != b"{":
        return None
    if path.endswith("/responses"):
        return OPENAI_RESPONSES if _any_in(body, b'"input"', b'"prompt"', b'"previous_response_id"') else None
    if b'"messages"' not in body:
        return None
    return OPENAI_CHAT if path.endswith("/chat/completions") else ANTHROPIC_MESSAGES


def _any_in(body: bytes, *names: bytes) -> bool:
    return any(name in body for name in names)
