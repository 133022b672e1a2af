"""Values as other formats write them -> ours: ids of any shape, times as text, attributes of any JSON. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from otel_agent_replay.model import AttributeValue

_TRACE_ID, _SPAN_ID = 16, 8  # bytes
_FRACTION: Final = re.compile(r"[.,](\d+)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def trace_id_of(text: Any) -> bytes:
    """Return a trace id: hexadecimal digits as they are (a short one with noughts before it), else the text's digest.

    Empty for no text.
    """
    return _id(text, _TRACE_ID)


def span_id_of(text: Any) -> bytes:
    """Return a span id, likewise."""
    return _id(text, _SPAN_ID)


def _id(text: Any, size: int) -> bytes:
    if not isinstance(text, str) or not text:
        return b""
    digits = text.removeprefix("0x").replace("-", "") if size == _TRACE_ID else text.removeprefix("0x")
    if len(digits) <= 2 * size:
        try:
            found = bytes.fromhex(digits.rjust(2 * size, "0"))
        except ValueError:
            found = b""
        if any(found):
            return found
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:size]


def time_ns_of(text: Any) -> int:
    """Return Unix nanoseconds of a time in ISO 8601, all its digits kept; 0 where there is none. UTC is meant.

    >>> time_ns_of("2025-11-17T14:55:18.786Z")
    1763391318786000000
    """
    if not isinstance(text, str):
        return 0
    fraction = _FRACTION.search(text)
    whole = _FRACTION.sub("", text, count=1).replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    since = moment - _EPOCH
    nanoseconds = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    return max(0, (since.days * 86400 + since.seconds) * 10**9 + nanoseconds)


def attributes_of(found: Any) -> dict[str, AttributeValue]:
    """Return a JSON object as attributes: lists as tuples, integers beyond 64 bits as text."""
    return {str(key): attribute_of(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def attribute_of(value: Any) -> AttributeValue:
    """Return one JSON value as an attribute's."""
    if isinstance(value, Mapping):
        return attributes_of(value)
    if isinstance(value, (list, tuple)):
        return tuple(attribute_of(item) for item in value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value


def whole_number(value: Any) -> int:
    """Return a whole number that may come as text, 0 for what is none."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
