"""The canonical form of JSON: the same bytes for the same content, whatever the order of its keys.

Owns what "equal content" means for matching and comparison. It never changes what is stored: recordings keep
the bytes that crossed the wire.
"""

from __future__ import annotations

import json
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=True).encode


def canonical_json(value: Any) -> bytes:
    r"""Return JSON with sorted keys, no spaces and arrays in their order, as UTF-8.

    `value` is what `json.loads` gives. Lone surrogates are passed as three bytes each, NaN and the infinities as
    the tokens that `json` reads back. Raises TypeError for what JSON cannot hold.

    >>> canonical_json({"b": [2, 1], "a": "é"})
    b'{"a":"\xc3\xa9","b":[2,1]}'
    """
    return _encode(value).encode("utf-8", "surrogatepass")


def is_json(media_type: str) -> bool:
    """Return whether a Content-Type says JSON: `application/json`, `text/json`, `application/problem+json` ..."""
    essence = media_type.partition(";")[0].strip().lower()
    return essence.endswith(("/json", "+json"))


def canonical_body(data: bytes, media_type: str) -> bytes:
    """Return the canonical bytes of a JSON body; any other body, and JSON that does not parse, unchanged."""
    if not is_json(media_type):
        return data
    try:
        return canonical_json(json.loads(data))
    except (ValueError, RecursionError):
        return data
