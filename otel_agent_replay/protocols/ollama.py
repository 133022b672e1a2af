"""Ollama's own protocols: `ollama.chat` and `ollama.generate`. Its OpenAI paths speak `openai.chat_completions`."""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Message, Part, RequestMessages
from otel_agent_replay.protocols.glance import glancing
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.ollama_fold import OllamaReducer, fold_ollama, ollama_framing, ollama_glance
from otel_agent_replay.protocols.openai_chat_messages import chat_message, tool_definition
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.raw_arguments import turns_with_raw_arguments


def _chat_facts(body: bytes) -> Facts:
    return facts_around(body, b"messages", _request_facts)


def _generate_facts(body: bytes) -> Facts:
    return _request_facts(parse_object(body) or {})


def _request_facts(outer: dict[str, Any]) -> Facts:
    """Sampling settings lie in `options`; a stream is what one gets without asking."""
    found = facts.request_facts({**outer, **as_object(outer.get("options"))}, limits=("num_predict",), stops="stop")
    found.setdefault(semconv.REQUEST_STREAM, True)
    if as_text(outer.get("think")):
        found[semconv.REQUEST_REASONING_LEVEL] = outer["think"]
    if outer.get("format"):
        found[semconv.OUTPUT_TYPE] = "json"
    return found


def _chat_messages(body: bytes) -> RequestMessages:
    request = parse_object(body) or {}
    turns = turns_with_raw_arguments(body, "messages", ("tool_calls",), ("function", "arguments"))
    if has_surrogate_escape(body):
        request, turns = as_object(mend_all(request)), as_objects(mend_all(turns))
    return RequestMessages(
        messages=[_message(turn) for turn in turns],
        tools=[tool_definition(tool) for tool in as_objects(request.get("tools"))],
    )


def _message(turn: dict[str, Any]) -> Message:
    named = {**turn, "reasoning_content": turn.get("thinking")}
    if turn.get("role") == "tool":
        named["tool_call_id"] = turn.get("tool_call_id") or turn.get("tool_name")
    message = chat_message(named)
    message["parts"].extend(_images(turn))
    return message


def _generate_messages(body: bytes) -> RequestMessages:
    request = as_object(mend_all(parse_object(body) or {}))
    system, prompt = as_text(request.get("system")), as_text(request.get("prompt"))
    parts: list[Part] = [{"type": "text", "content": prompt}] if prompt else []
    parts.extend(_images(request))
    return RequestMessages(
        system=[{"type": "text", "content": system}] if system else [],
        messages=[{"role": "user", "parts": parts}] if parts else [],
    )


def _images(holder: dict[str, Any]) -> list[Part]:
    images = holder.get("images")
    return [
        {"type": "blob", "modality": "image", "content": image}
        for image in (images if isinstance(images, list) else ())
        if isinstance(image, str)
    ]


OLLAMA_CHAT = Protocol(
    name="ollama.chat",
    operation="chat",
    own_provider="ollama",
    facts_of_request=facts.at_deployment(_chat_facts),
    request_messages=_chat_messages,
    framing=ollama_framing,
    facts_of_answer=glancing(ollama_glance),
    reducer=OllamaReducer,
    fold_whole=fold_ollama,
)

OLLAMA_GENERATE = Protocol(
    name="ollama.generate",
    operation="text_completion",
    own_provider="ollama",
    facts_of_request=facts.at_deployment(_generate_facts),
    request_messages=_generate_messages,
    framing=ollama_framing,
    facts_of_answer=glancing(ollama_glance),
    reducer=OllamaReducer,
    fold_whole=fold_ollama,
)
