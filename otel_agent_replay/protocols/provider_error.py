"""Errors as providers write them, in bodies and inside streams, in one shape."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Folded, ProviderError
from otel_agent_replay.protocols.json_text import compact, parse

TRUNCATED = "stream_truncated"
MALFORMED = "malformed_response"
_KEPT_TEXT = 2000
_MESSAGES = ("message", "detail", "error", "errors")


def error_of(value: Any, status: int) -> ProviderError:
    """The error in `value`, which is what a provider put under `error`: an object or a sentence."""
    if not isinstance(value, dict):
        return ProviderError("error", None if value is None else str(value), None, status)
    code = value.get("code")
    kind = value.get("type") or code or value.get("status") or "error"
    message = value.get("message")
    if message is not None and not isinstance(message, str):
        message = compact(message)
    return ProviderError(str(kind), message, code if isinstance(code, (str, int)) else None, status)


def error_of_body(body: bytes, status: int) -> ProviderError:
    """The error in the body of an answer whose status says that there is one."""
    value = parse(body)
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict):
        inner = value.get("error")
        if isinstance(inner, dict):
            return error_of(inner, status)
        message = next((value[key] for key in _MESSAGES if value.get(key)), None)
        kind = value.get("type") if value.get("type") != "error" else None
        kind = kind or value.get("error_type")
        return error_of({"type": kind or f"http_{status}", "message": message, "code": value.get("code")}, status)
    return ProviderError(f"http_{status}", body[:_KEPT_TEXT].decode("utf-8", "replace") or None, None, status)


def malformed(body: bytes, status: int, wanted: str) -> Folded:
    """The answer for a body that is no `wanted`: its start is named, its bytes stay in the recording."""
    problem = f"the body is no {wanted}: {body[:60]!r}"
    return Folded(complete=False, error=ProviderError(MALFORMED, problem, None, status), problems=(problem,))
