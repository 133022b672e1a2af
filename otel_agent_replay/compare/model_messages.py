"""A model request without what providers draw anew for every call: ids keep their links, not their letters.

Knows the few keys under which providers put ids and opaque tokens into messages. Never looks into a tool's
arguments for ids: there an `id` is content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ID_KEYS = frozenset(
    ("id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "item_id", "previous_response_id",
     "previous_interaction_id")
)  # fmt: skip
_OPAQUE_KEYS = frozenset(("signature", "encrypted_content", "thought_signature", "thoughtSignature", "redactedContent"))
# Where a tool's own values stand: by the type of what holds them, or by the name under which that stands.
_CONTENT_OF_TYPE = {"tool_use": "input", "server_tool_use": "input", "function_call": "arguments"}
_CONTENT_OF_NAME = {
    "toolUse": "input",
    "functionCall": "args",
    "function_call": "args",
    "functionResponse": "response",
    "function_response": "response",
}
_SETTLED_KEYS = _ID_KEYS | _OPAQUE_KEYS | {"arguments"}
_CONVERSATION = frozenset({"messages", "contents", "input", "previous_response_id", "previous_interaction_id"})


def settled_request(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the request with ids replaced by their order of first appearance, and the ids.

    Arguments of tool calls that travel as JSON text come back as values, so that spelling is no difference.

    >>> settled_request({"messages": [{"role": "tool", "tool_call_id": "call_9f", "content": "7"}]})
    ({'messages': [{'role': 'tool', 'tool_call_id': 'id 1', 'content': '7'}]}, ['call_9f'])
    """
    seen: dict[str, str] = {}
    settled = {key: _settle(value, key, seen) if key in _CONVERSATION else value for key, value in body.items()}
    return settled, list(seen)


def _settle(value: Any, key: str, seen: dict[str, str]) -> Any:
    if isinstance(value, dict):
        content = _CONTENT_OF_TYPE.get(str(value.get("type"))) or _CONTENT_OF_NAME.get(key)
        settled = {}
        for name, inner in value.items():
            if isinstance(inner, str):  # which most are: two calls for each would be half of all the work
                settled[name] = _settle_text(inner, name, seen) if name in _SETTLED_KEYS else inner
            else:
                settled[name] = inner if name == content else _settle(inner, name, seen)
        return settled
    if isinstance(value, list):
        return [inner if isinstance(inner, str) else _settle(inner, "", seen) for inner in value]
    return _settle_text(value, key, seen) if isinstance(value, str) else value


def _settle_text(value: str, key: str, seen: dict[str, str]) -> Any:
    if key in _ID_KEYS:
        return seen.setdefault(value, f"id {len(seen) + 1}")
    if key in _OPAQUE_KEYS:
        return seen.setdefault(value, f"opaque {len(seen) + 1}")
    return _parsed(value) if key == "arguments" else value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def role_at(body: Any, key: str, index: int) -> str:
    """Return the role of one element of `messages` or `input`, "" when it has none."""
    elements = body.get(key) if isinstance(body, Mapping) else None
    if isinstance(elements, list) and index < len(elements) and isinstance(elements[index], Mapping):
        return str(elements[index].get("role", ""))
    return ""
