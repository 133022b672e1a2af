"""Cohere's chat: `cohere.chat` is version 2 of its API, `cohere.chat_v1` the one before."""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.cohere_fold import CohereReducer, fold_cohere
from otel_agent_replay.protocols.cohere_v1_fold import (
    CohereV1Reducer,
    cohere_v1_framing,
    cohere_v1_glance,
    fold_cohere_v1,
)
from otel_agent_replay.protocols.folded import Message, Part, RequestMessages
from otel_agent_replay.protocols.glance import glancing, sse_glance
from otel_agent_replay.protocols.json_text import as_object, as_objects, as_text, mend_all, parse_object
from otel_agent_replay.protocols.openai_chat_messages import chat_message, tool_definition
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.raw_arguments import turns_with_raw_arguments
from otel_agent_replay.protocols.stream import sse_framing

_MARKERS = (b'"message-start"', b'"message-end"', b'"error"')
_ROLES = {"USER": "user", "CHATBOT": "assistant", "SYSTEM": "system", "TOOL": "tool"}


def _chat_facts(body: bytes) -> Facts:
    return facts_around(body, b"messages", _request_facts)


def _v1_facts(body: bytes) -> Facts:
    return facts_around(body, b"chat_history", _request_facts)


def _request_facts(outer: dict[str, Any]) -> Facts:
    named = {**outer, "top_p": outer.get("p"), "top_k": outer.get("k")}
    found = facts.request_facts(named, limits=("max_tokens",), stops="stop_sequences")
    kind = facts.output_type(as_object(outer.get("response_format")).get("type"))
    if kind:
        found[semconv.OUTPUT_TYPE] = kind
    if as_text(outer.get("conversation_id")):
        found[semconv.CONVERSATION_ID] = outer["conversation_id"]
    return found


def _chat_messages(body: bytes) -> RequestMessages:
    request = as_object(mend_all(parse_object(body) or {}))
    return RequestMessages(
        messages=[
            chat_message({**turn, "reasoning_content": turn.get("tool_plan")})
            for turn in as_objects(request.get("messages"))
        ],
        tools=[tool_definition(tool) for tool in as_objects(request.get("tools"))],
    )


def _v1_messages(body: bytes) -> RequestMessages:
    request = as_object(mend_all(parse_object(body) or {}))
    history = as_objects(mend_all(turns_with_raw_arguments(body, "chat_history", ("tool_calls",), ("parameters",))))
    preamble, message = as_text(request.get("preamble")), as_text(request.get("message"))
    messages = [_v1_message(turn) for turn in history]
    results = _results(request)
    if results:
        messages.append({"role": "tool", "parts": results})
    if message:
        messages.append({"role": "user", "parts": [{"type": "text", "content": message}]})
    return RequestMessages(
        system=[{"type": "text", "content": preamble}] if preamble else [],
        messages=messages,
        tools=[{"type": "function", **tool} for tool in as_objects(request.get("tools"))],
    )


def _v1_message(turn: dict[str, Any]) -> Message:
    role, said = str(turn.get("role") or ""), as_text(turn.get("message"))
    parts: list[Part] = [{"type": "text", "content": said}] if said else []
    parts += [
        {"type": "tool_call", "id": None, "name": call.get("name"), "arguments": call.get("parameters") or ""}
        for call in as_objects(turn.get("tool_calls"))
    ]
    return {"role": _ROLES.get(role, role.lower()), "parts": parts + _results(turn)}


def _results(holder: dict[str, Any]) -> list[Part]:
    """Results of tools: a call has no id in this version, so its name stands for it."""
    return [
        {"type": "tool_call_response", "id": as_object(one.get("call")).get("name"), "response": one.get("outputs")}
        for one in as_objects(holder.get("tool_results"))
    ]


COHERE_CHAT = Protocol(
    name="cohere.chat",
    operation="chat",
    own_provider="cohere",
    facts_of_request=facts.at_deployment(_chat_facts),
    request_messages=_chat_messages,
    framing=sse_framing,
    facts_of_answer=glancing(sse_glance(_MARKERS)),
    reducer=CohereReducer,
    fold_whole=fold_cohere,
)

COHERE_CHAT_V1 = Protocol(
    name="cohere.chat_v1",
    operation="chat",
    own_provider="cohere",
    facts_of_request=facts.at_deployment(_v1_facts),
    request_messages=_v1_messages,
    framing=cohere_v1_framing,
    facts_of_answer=glancing(cohere_v1_glance),
    reducer=CohereV1Reducer,
    fold_whole=fold_cohere_v1,
)
