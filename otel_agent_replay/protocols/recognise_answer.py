"""Which protocol an answer speaks, told from its bytes alone: for bodies that were kept without their request.

The first objects decide, whatever they are framed in. Protocols that look alike on the wire (the many compatible
servers) give the one they all speak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from otel_agent_replay.protocols.event_stream import frames_of, looks_like_event_stream
from otel_agent_replay.protocols.json_text import as_object, as_objects, parse
from otel_agent_replay.protocols.openai_chat import OPENAI_CHAT
from otel_agent_replay.protocols.protocol import Protocol
from otel_agent_replay.protocols.recognise import PROTOCOLS
from otel_agent_replay.protocols.sse import events_of, looks_like_sse
from otel_agent_replay.protocols.stream import NamedObject

_LOOKED_AT = 12  # objects; some streams begin with events that say nothing of whose they are
_LOOKED_INTO = 1 << 20  # bytes


def recognise_answer(body: bytes, *, errors: bool = True) -> Protocol | None:
    r"""The protocol of an answer, or None when its first objects do not tell.

    With `errors` an error in the form that most share is taken for Chat Completions.

    >>> recognise_answer(b'data: {"object":"chat.completion.chunk","choices":[]}\n\n').name
    'openai.chat_completions'
    """
    first = list(islice(_first_objects(body), _LOOKED_AT))
    for name, value in first:
        found = recognise_object(name, value)
        if found is not None:
            return PROTOCOLS.get(found)
    if errors and any("message" in as_object(value.get("error")) for _, value in first):
        return OPENAI_CHAT
    return None


def recognise_object(name: str, value: dict[str, Any]) -> str | None:
    """The name of the protocol that an event or whole answer belongs to, or None when it could be anybody's."""
    return next((protocol for protocol, fits in _SIGNS if fits(name, value)), None)


def framed_by_lines(value: dict[str, Any]) -> bool:
    """Whether an object that stands on a line of its own comes so from its provider: no framing was taken off."""
    return recognise_object("", value) in _BY_LINES


def _first_objects(body: bytes) -> Iterator[NamedObject]:
    start = body[:_LOOKED_INTO]
    if looks_like_event_stream(start):
        for frame in frames_of(start):
            yield frame.text(":event-type"), as_object(parse(frame.payload))
    elif looks_like_sse(start):
        for event in events_of(start):
            yield event.type, as_object(parse(event.data))
    else:
        whole = parse(body)
        if whole is None:
            whole = [parse(line) for line in islice(start.splitlines(), _LOOKED_AT)]
        for value in whole if isinstance(whole, list) else [whole]:
            yield "", as_object(value)


def _chat(_: str, value: dict[str, Any]) -> bool:
    kind = value.get("object")
    if kind in ("chat.completion.chunk", "chat.completion"):
        return True
    return any("delta" in choice or "message" in choice for choice in as_objects(value.get("choices")))


def _completions(_: str, value: dict[str, Any]) -> bool:
    return value.get("object") == "text_completion" or any("text" in item for item in as_objects(value.get("choices")))


def _responses(name: str, value: dict[str, Any]) -> bool:
    return str(value.get("type") or name).startswith("response.") or value.get("object") == "response"


def _messages(name: str, value: dict[str, Any]) -> bool:
    kind = value.get("type") or name
    if kind in ("message_start", "content_block_start", "content_block_delta", "message_delta"):
        return True
    if kind == "message":
        return "stop_reason" in value and isinstance(value.get("content"), list)
    return kind == "error" and "type" in as_object(value.get("error")) and "code" not in as_object(value.get("error"))


def _google(_: str, value: dict[str, Any]) -> bool:
    if "candidates" in value or "promptFeedback" in value or "usageMetadata" in value:
        return True
    return str(as_object(value.get("error")).get("status", "")).isupper()


def _interactions(name: str, value: dict[str, Any]) -> bool:
    kind = str(value.get("event_type") or name)
    return kind.startswith(("interaction.", "interaction_")) or value.get("object") == "interaction"


def _converse(name: str, value: dict[str, Any]) -> bool:
    kind = name if name not in ("", "message") else next(iter(value), "")
    if kind in ("messageStart", "contentBlockStart", "contentBlockDelta"):
        return True
    return "stopReason" in value and "message" in as_object(value.get("output"))


def _invoke(name: str, value: dict[str, Any]) -> bool:
    if "generation" in value and "stop_reason" in value:
        return True
    return name == "chunk" and str(value.get("bytes")).startswith(("ey", "ew"))  # the base64 of an object's start


def _ollama(_: str, value: dict[str, Any]) -> bool:
    return "created_at" in value and "done" in value


def _cohere(name: str, value: dict[str, Any]) -> bool:
    if (value.get("type") or name) in ("message-start", "content-start", "content-delta", "tool-plan-delta"):
        return True
    return "finish_reason" in value and as_object(value.get("message")).get("role") == "assistant"


def _cohere_v1(_: str, value: dict[str, Any]) -> bool:
    return "generation_id" in value and ("event_type" in value or "text" in value)


_SIGNS: Final[tuple[tuple[str, Callable[[str, dict[str, Any]], bool]], ...]] = (
    ("openai.chat_completions", _chat),
    ("openai.completions", _completions),
    ("openai.responses", _responses),
    ("anthropic.messages", _messages),
    ("google.generate_content", _google),
    ("google.interactions", _interactions),
    ("aws.bedrock_converse", _converse),
    ("aws.bedrock_invoke", _invoke),
    ("ollama.chat", lambda _, value: _ollama(_, value) and "message" in value),
    ("ollama.generate", lambda _, value: _ollama(_, value) and "response" in value),
    ("cohere.chat", _cohere),
    ("anthropic.complete", lambda _, value: "completion" in value and "stop_reason" in value),
    ("huggingface.text_generation", lambda _, value: "generated_text" in value),
    ("cohere.chat_v1", _cohere_v1),
)
"""Protocol name and what its objects look like."""

_BY_LINES: Final = frozenset(("ollama.chat", "ollama.generate", "cohere.chat_v1"))
