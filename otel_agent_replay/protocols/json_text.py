"""Reading JSON that strangers wrote: never raises, never loses exactness without saying so.

Owns parsing with a bound on surprises (depth, number size), the strict validity check of tool arguments, and the
mending of surrogates that JSON escapes may leave in text.
"""

from __future__ import annotations

import json
import json.scanner
from typing import Any, NoReturn

from otel_agent_replay.patterns import late

TOO_DEEP = '"(nested too deeply to be written)"'
"""What `compact` gives for a value that the standard parser could read but not write."""

_scanned = json.scanner.make_scanner(json.JSONDecoder())  # type: ignore[arg-type] # typed as if it took itself
"""What `json.loads` comes to for a text without spaces around it."""
_SURROGATE = late("[\ud800-\udfff]")


def text_of(body: bytes) -> str:
    """`body` as text the way the JSON parser reads it. UnicodeDecodeError (a ValueError) when it cannot."""
    return body.decode(json.detect_encoding(body), "surrogatepass")


def parse(text: str | bytes) -> Any:
    """The value, or None when `text` is not JSON (or is `null`, or is nested beyond what the parser takes)."""
    if isinstance(text, bytes) and text[:1] == b"{" and text[1:2] != b"\0":  # UTF-8, as the parser would find out
        try:
            text = text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return None
    if isinstance(text, str):
        try:
            value, end = _scanned(text, 0)
        except (ValueError, RecursionError, StopIteration):
            end = -1
        if end == len(text):
            return value
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in `text`, or None when there is none."""
    value = parse(text)
    return value if isinstance(value, dict) else None


def parsed_text(value: Any) -> Any:
    """JSON in a text as the value that it is; other text, and other values, as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        found = parse(value)
        return value if found is None else found
    return value


def as_object(value: Any) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects in `value` if it is an array, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_list(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    """`value` if it is a string with something in it."""
    return value if isinstance(value, str) and value else None


def as_count(value: Any) -> int | None:
    """`value` if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def compact(value: Any) -> str:
    """`value` as JSON text without spaces: for action objects for which the wire has no text of their own."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return TOO_DEEP


def check_arguments(raw: str) -> tuple[bool, str | None]:
    """Whether `raw` is strict JSON, and what is odd about it: `duplicate keys`, or None.

    Numbers stay text while checking, so neither their size nor their precision matters; NaN and Infinity are not JSON.
    """
    duplicates: set[str] = set()

    def pairs(members: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in members:
            (duplicates if key in seen else seen).add(key)

    try:
        json.loads(raw, object_pairs_hook=pairs, parse_int=str, parse_float=str, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False, None
    return True, f"duplicate keys {sorted(duplicates)}" if duplicates else None


def refuse_constant(constant: str) -> NoReturn:
    """Raise ValueError for `NaN` and its like, which Python's parser would take."""
    raise ValueError(f"{constant} is not JSON")


def has_surrogate_escape(body: bytes | bytearray) -> bool:
    r"""Whether a `\ud8..` to `\udf..` escape may be in `body`: the only way a surrogate gets into parsed text."""
    return b"\\ud" in body or b"\\uD" in body


def mend(text: str) -> tuple[str, bool]:
    """`text` without surrogates: halves that meet become one character, a lone one becomes U+FFFD (then True)."""
    if _SURROGATE.search(text) is None:
        return text, False
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined, joined.count("�") > text.count("�")


def mend_all(value: Any) -> Any:
    """A JSON value with every string in it mended, keys too; arrays become lists.

    By way of its text, so that a deep value takes no deep stack.
    """
    return parse(mend(compact(value))[0])
