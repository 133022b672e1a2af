"""Messages as OpenTelemetry's GenAI conventions have them, as a protocol of its own: `otel.messages`.

Nobody speaks it on a wire. It is the form in which a model call is kept whose messages another instrumentation
reported, so that everything that reads a recorded call reads an imported one too. A request is an object of `model`,
`parameters`, `system_instructions`, `tools` and `messages`, an answer one of `model` and `messages`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Folded, Message, ProviderError, RequestMessages, ToolCall, joined_content
from otel_agent_replay.protocols.glance import glancing
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    check_arguments,
    compact,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.openai_chat_fold import ChatReducer
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.stream import NamedObject

NAME: Final = "otel.messages"


def request_body(request: RequestMessages, *, model: str = "", parameters: dict[str, Any] | None = None) -> bytes:
    """The request as bytes, members that say nothing left out."""
    members = {
        "model": model,
        "parameters": parameters,
        "system_instructions": request.system,
        "tools": request.tools,
        "messages": request.messages,
    }
    return _written({name: value for name, value in members.items() if value or name == "messages"})


def answer_body(messages: Iterable[Message], *, model: str = "") -> bytes:
    """The answer as bytes."""
    return _written({**({"model": model} if model else {}), "messages": list(messages)})


def _written(value: dict[str, Any]) -> bytes:
    # Lone surrogates stay escapes: UTF-8 cannot hold them.
    return compact(value).encode("utf-8", "backslashreplace")


def _request_facts(body: bytes) -> Facts:
    request = parse_object(body) or {}
    named = {**as_object(request.get("parameters")), "model": request.get("model"), "tools": request.get("tools")}
    return facts.request_facts(named, limits=("max_tokens",), stops="stop_sequences")


def _request_messages(body: bytes) -> RequestMessages:
    request = as_object(mend_all(parse_object(body) or {}))
    return RequestMessages(
        system=as_objects(request.get("system_instructions")),
        messages=as_objects(request.get("messages")),
        tools=as_objects(request.get("tools")),
    )


def _fold(body: bytes, status: int) -> Folded:
    del status
    answer = parse_object(body)
    messages = as_objects((answer or {}).get("messages"))
    if answer is None or not messages:
        return Folded(complete=False, error=ProviderError("no_messages", "the answer's messages were not kept"))
    parts = as_objects(messages[0].get("parts"))
    refusal = joined_content(parts, "refusal")
    return Folded(
        complete=True,
        finish_reason=as_text(messages[0].get("finish_reason")),
        text=joined_content(parts, "text"),
        reasoning=joined_content(parts, "reasoning") or None,
        refusal=refusal or None,
        tool_calls=tuple(_call(part) for part in parts if part.get("type") == "tool_call"),
        model=as_text(answer.get("model")),
        output_messages=tuple(messages),
    )


def _call(part: dict[str, Any]) -> ToolCall:
    arguments = part.get("arguments")
    raw = arguments if isinstance(arguments, str) else "" if arguments is None else compact(arguments)
    return ToolCall(as_text(part.get("id")), str(part.get("name") or ""), raw, check_arguments(raw)[0])


def _no_stream(start: bytes, media_type: str) -> None:
    """It is kept whole, so there is no framing."""
    del start, media_type


def _nothing(body: bytes, media_type: str) -> tuple[NamedObject, ...]:
    del body, media_type
    return ()


OTEL_MESSAGES = Protocol(
    name=NAME,
    operation="chat",
    own_provider="",
    facts_of_request=facts.at_deployment(_request_facts),
    request_messages=_request_messages,
    framing=_no_stream,
    facts_of_answer=glancing(_nothing),
    reducer=ChatReducer,
    fold_whole=_fold,
)
