"""Google's Interactions API (`/interactions`), its models and its agents.

What it does not know: steps of tools that Google runs itself keep their own names, and an interaction that runs in the
background is complete only in the answer that says so.
"""

from __future__ import annotations

from typing import Any, Final

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Message, RequestMessages
from otel_agent_replay.protocols.google_interactions_fold import InteractionReducer, fold_interaction
from otel_agent_replay.protocols.google_interactions_steps import contents, step_parts
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.stream import is_stream, sse_framing
from otel_agent_replay.protocols.stream_scan import scan

# Texts of which an event must hold one to be worth parsing.
_MARKS: Final = (b'"interaction"', b'"usage"', b'"error"')
_ROLES: Final = {"model": "assistant", "model_output": "assistant", "thought": "assistant"}


def _facts_of_request(body: bytes, url: str) -> Facts:
    del url
    return facts_around(body, b"input", _request_facts)


def _facts_of_answer(protocol: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    """Of a stream only the events about the interaction itself are reduced."""
    if is_stream(body[:64], media_type):
        seen = scan(body, _MARKS)
        reducer = InteractionReducer(status)
        for value in seen.marked:
            if value.get("event_type") not in ("step.start", "step.delta", "content.start", "content.delta"):
                reducer.add("message", value)
            else:
                reducer.add("done", {"metadata": value.get("metadata")})
        folded = reducer.result(ended=seen.done)
    else:
        folded = protocol.fold(body, media_type, status)
    return facts.facts_of(folded, reasoning_apart=True)


def _request_facts(outer: dict[str, Any]) -> Facts:
    config = as_object(outer.get("generation_config"))
    flat = {
        "model": outer.get("model") or outer.get("agent"),
        "stream": outer.get("stream"),
        "tools": outer.get("tools"),
        "max_tokens": config.get("max_output_tokens"),
        **{name: config.get(name) for name in ("temperature", "top_p", "top_k", "seed", "stop_sequences")},
    }
    found = facts.request_facts(flat, limits=("max_tokens",), stops="stop_sequences")
    level = as_text(config.get("thinking_level"))
    if level:
        found[semconv.REQUEST_REASONING_LEVEL] = level
    return found


def _request_messages(body: bytes) -> RequestMessages:
    request = parse_object(body)
    if request is None:
        return RequestMessages()
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    given = request.get("input")
    items = as_objects(given if isinstance(given, list) else [given])
    turns = [item for item in items if "role" in item or item.get("type") in ("user_input", *_ROLES)]
    messages: list[Message]
    if isinstance(given, str) or not turns:
        parts = contents(given)
        messages = [{"role": "user", "parts": parts}] if parts else []
    else:
        messages = [_turn(item) for item in items]
    return RequestMessages(
        system=contents(request.get("system_instruction")) if request.get("system_instruction") else [],
        messages=messages,
        tools=[dict(tool) for tool in as_objects(request.get("tools"))],
    )


def _turn(item: dict[str, Any]) -> Message:
    """A turn (a role with its content), or a step of an earlier answer given back."""
    kind = as_text(item.get("type"))
    role = as_text(item.get("role"))
    if role is not None:
        return {"role": _ROLES.get(role, role), "parts": contents(item.get("content"))}
    answered = kind is not None and kind.endswith("_result")
    called = kind is not None and kind.endswith("_call")
    spoken = "tool" if answered else "assistant" if called else _ROLES.get(str(kind), "user")
    return {"role": spoken, "parts": step_parts(item)}


GOOGLE_INTERACTIONS = Protocol(
    name="google.interactions",
    operation="chat",
    own_provider="gcp.gemini",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=_request_messages,
    framing=sse_framing,
    reducer=InteractionReducer,
    fold_whole=fold_interaction,
)
