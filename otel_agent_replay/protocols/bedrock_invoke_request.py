"""InvokeModel requests: each maker's own body, told by its shape."""

from __future__ import annotations

from typing import Any, Final

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.anthropic_request import anthropic_request
from otel_agent_replay.protocols.bedrock_converse import converse_facts
from otel_agent_replay.protocols.bedrock_converse_request import converse_request
from otel_agent_replay.protocols.folded import Message, RequestMessages
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.openai_chat_messages import chat_messages
from otel_agent_replay.protocols.protocol import Facts

_PROMPTS: Final = ("prompt", "inputText", "message")
# The spellings of a limit and of stop texts, by all makers of text models.
_LIMITS: Final = ("max_tokens", "max_gen_len", "max_tokens_to_sample", "maxTokenCount", "maxTokens")
_STOPS: Final = ("stop_sequences", "stopSequences", "stop")
_ROLES: Final = {"CHATBOT": "assistant", "USER": "user", "SYSTEM": "system", "TOOL": "tool"}


def invoke_request(body: bytes) -> RequestMessages:
    """What the model was given; empty where `body` is no request. Never raises."""
    request = parse_object(body)
    if request is None:
        return RequestMessages()
    if "anthropic_version" in request:
        return anthropic_request(body)
    if is_nova(request):
        return converse_request(body)
    if "messages" in request:
        return chat_messages(body)
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    prompt = next((request[name] for name in _PROMPTS if isinstance(request.get(name), str)), None)
    messages: list[Message] = [
        _message(_ROLES.get(str(turn.get("role")), str(turn.get("role") or "").lower()), turn.get("message"))
        for turn in as_objects(request.get("chat_history"))
    ]
    if prompt is not None:
        messages.append(_message("user", prompt))
    preamble = as_text(request.get("preamble"))
    return RequestMessages(
        system=[{"type": "text", "content": preamble}] if preamble else [],
        messages=messages,
        tools=as_objects(request.get("tools")),
    )


def _message(role: str, text: Any) -> Message:
    return {"role": role, "parts": [{"type": "text", "content": text if isinstance(text, str) else ""}]}


def is_nova(request: dict[str, Any]) -> bool:
    """Whether a body is one to Amazon Nova: Converse's messages, whose contents are arrays of objects without a type.

    `{"messages": [{"role": "user", "content": [{"text": "hi"}]}]}`; the members around them are Nova's alone, too.
    """
    if "inferenceConfig" in request or "toolConfig" in request or "schemaVersion" in request:
        return True
    contents = [message.get("content") for message in as_objects(request.get("messages"))]
    blocks = [block for content in contents if isinstance(content, list) for block in as_objects(content)]
    return bool(blocks) and not any("type" in block for block in blocks)


def invoke_facts(outer: dict[str, Any]) -> Facts:
    """The facts of a request, whatever maker's it is."""
    if "inferenceConfig" in outer or "toolConfig" in outer:
        return converse_facts(outer)
    inner = {**outer, **as_object(outer.get("textGenerationConfig"))}
    flat = {
        **inner,
        "top_p": next((inner[name] for name in ("top_p", "topP", "p") if name in inner), None),
        "top_k": inner.get("top_k", inner.get("k")),
        "stop": next((inner[name] for name in _STOPS if name in inner), None),
    }
    flat.pop("model", None)
    found = facts.request_facts(flat, limits=("max_completion_tokens", *_LIMITS), stops="stop")
    choices = inner.get("num_generations")
    if isinstance(choices, int) and choices > 1:
        found[semconv.REQUEST_CHOICE_COUNT] = choices
    return found
