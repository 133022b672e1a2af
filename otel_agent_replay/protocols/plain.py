"""The body of an answer that is no stream: an object, or an error type that says why there is none."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.json_text import parse_object
from otel_agent_replay.protocols.provider_error import MALFORMED, error_of_body


def object_or_error(body: bytes, status: int) -> tuple[dict[str, Any], str | None]:
    """The object in `body` and None, or an empty one and the value of `error.type`."""
    if status >= 400:
        return {}, error_of_body(body, status).type
    value = parse_object(body)
    return ({}, MALFORMED) if value is None else (value, None)
