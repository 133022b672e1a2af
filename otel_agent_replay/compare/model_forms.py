"""Model calls in one form, where two runs recorded them in different ones. Pure.

One trace keeps a provider's own JSON, another OpenTelemetry's messages, a recording the bytes: the same call then has
two shapes. What both can say is compared: model, sampling, instructions and messages, tools, the answer's parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from otel_agent_replay import semconv
from otel_agent_replay.model import Kind, Node, RecordedRun, RecordedSpan
from otel_agent_replay.protocols import PROTOCOLS, Protocol
from otel_agent_replay.protocols.folded import Message, Part

_PARAMETERS: Final = {
    semconv.REQUEST_TEMPERATURE: "temperature",
    semconv.REQUEST_TOP_P: "top_p",
    semconv.REQUEST_TOP_K: "top_k",
    semconv.REQUEST_MAX_TOKENS: "max_tokens",
    semconv.REQUEST_SEED: "seed",
    semconv.REQUEST_STOP_SEQUENCES: "stop",
}
_FINISHES: Final = {
    "tool_call": "tool_calls",
    "tool-calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "max_tokens": "length",
}
_TOOL_KEYS: Final = ("name", "description", "parameters")


def differ_in_form(a: RecordedRun, b: RecordedRun) -> bool:
    """Whether the model calls of an imported run are kept in another form than those of the run beside it."""
    forms = _forms(a), _forms(b)
    return bool(forms[0] and forms[1]) and forms[0] != forms[1] and (_is_imported(a) or _is_imported(b))


def _forms(run: RecordedRun) -> set[str]:
    return {name for span in run.spans for name in _protocol(span)}


def _protocol(span: RecordedSpan) -> Iterable[str]:
    node = span.node
    if node is not None and node.kind is Kind.MODEL:
        name = span.span.attributes.get(semconv.PROTOCOL) or (node.call and node.call.attributes.get(semconv.PROTOCOL))
        if isinstance(name, str) and name in PROTOCOLS:
            yield name


def _is_imported(run: RecordedRun) -> bool:
    return any(_without_wire(node) for node in run.nodes)


def _without_wire(node: Node) -> bool:
    return node.kind is Kind.MODEL and node.call is not None and node.call.head is None


def request_in_one_form(protocol: Protocol, body: bytes, url: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model was asked. `facts` are the span's attributes, for what the body does not say."""
    said = {**facts, **protocol.request_facts(body, url)}
    request = protocol.request_messages(body)
    messages = [*([{"role": "system", "parts": request.system}] if request.system else []), *request.messages]
    tree: dict[str, Any] = {
        "model": said.get(semconv.REQUEST_MODEL),
        "messages": [_message(message) for message in messages],
        "tools": [{key: tool[key] for key in _TOOL_KEYS if tool.get(key)} for tool in request.tools],
    }
    tree |= {name: _plain(said[key]) for key, name in _PARAMETERS.items() if key in said}
    return {name: value for name, value in tree.items() if value not in (None, [])}


def finish_in_one_form(reason: str | None) -> str | None:
    """Return a finish reason in the words of Chat Completions, another one as it is, in lower case.

    >>> finish_in_one_form("tool-calls")
    'tool_calls'
    """
    return None if reason is None else _FINISHES.get(reason.lower(), reason.lower())


def _message(message: Message) -> dict[str, Any]:
    role = "system" if message.get("role") == "developer" else message.get("role")
    return {"role": role, "parts": [_part(part) for part in message.get("parts", [])]}


def _part(part: Part) -> Part:
    return {key: value for key, value in part.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
