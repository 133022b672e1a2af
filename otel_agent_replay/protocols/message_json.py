"""An answer in the JSON shape that we publish: what `agent-replay protocol --json` prints and parsers are held against.

`complete`: did the call end as its protocol wants a call to end. `finish_reason`: the text of the wire, null when none
came. `text`, `reasoning`, `refusal`. `tool_calls`: each with `id`, `name`, `arguments_raw` (exact text),
`arguments_valid_json`, `arguments` (their value: {} for no text, null for what is no JSON). `usage`: `input_tokens`,
`output_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens`, `reasoning_tokens`, each null where the wire
is silent; null when no usage came. `error`: `type`, `message`, `code`, `http_status`, or null.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from otel_agent_replay.protocols.folded import Folded

MESSAGE_KEYS = ("complete", "finish_reason", "text", "reasoning", "refusal", "tool_calls", "usage", "error")
"""The keys of a message, in order."""


def message_json(folded: Folded) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "complete": folded.complete,
        "finish_reason": folded.finish_reason,
        "text": folded.text,
        "reasoning": folded.reasoning,
        "refusal": folded.refusal,
        "tool_calls": [{**asdict(call), "arguments": call.arguments} for call in folded.tool_calls],
        "usage": None if folded.usage is None else asdict(folded.usage),
        "error": None if folded.error is None else asdict(folded.error),
    }
