"""Bedrock answers made by hand: frames of an AWS event stream, as its servers write them."""

from __future__ import annotations

import base64
import json
from typing import Any

from otel_agent_replay.protocols.event_stream import written_frame

JSON = "application/json"


def event(name: str, value: Any, *, ascii_only: bool = False) -> bytes:
    """One event frame of ConverseStream."""
    headers = {":event-type": name, ":content-type": JSON, ":message-type": "event"}
    return written_frame(headers, json.dumps(value, ensure_ascii=ascii_only).encode())


def converse_stream(*events: tuple[str, Any]) -> bytes:
    """A body of ConverseStream."""
    return b"".join(event(name, value) for name, value in events)


def chunk(value: Any) -> bytes:
    """One frame of InvokeModelWithResponseStream, with the padding that Bedrock adds."""
    encoded = base64.b64encode(json.dumps(value).encode()).decode()
    return event("chunk", {"bytes": encoded, "p": "abcdefgh"})


def exception(name: str, value: Any) -> bytes:
    """A frame in which the service gives up."""
    headers = {":exception-type": name, ":content-type": JSON, ":message-type": "exception"}
    return written_frame(headers, json.dumps(value).encode())


def text_answer(*texts: str) -> list[tuple[str, Any]]:
    """The events of an answer of one text block."""
    deltas = [("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in texts]
    usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 14, "cacheReadInputTokens": 4}
    return [
        ("messageStart", {"role": "assistant"}),
        *deltas,
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": usage, "metrics": {"latencyMs": 5}}),
    ]
