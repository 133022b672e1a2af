"""Arguments that a provider sends as JSON objects, put back to the text that they were on the wire.

Parsing and writing anew would round numbers, drop repeated keys and change the spelling; the text is cut out instead.
"""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.json_spans import Span, elements, member
from otel_agent_replay.protocols.json_text import as_objects, compact, parse_object, text_of

Path = tuple[str, ...]


def with_raw_arguments(text: str, value: dict[str, Any], calls: Path, inside: Path) -> dict[str, Any]:
    """`value`, the object in `text`, with the arguments of its calls as text; changed in place.

    `calls` is the path to the array of calls, `inside` that from a call to its arguments, for example
    `("message", "tool_calls")` and `("function", "arguments")`. Arguments that are text already stay as they are.
    """
    found: Any = value
    for key in calls:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, list):
        return value
    holders = [_holder(call, inside) for call in found]
    if any(holder is not None for holder in holders):
        texts = _texts(text, calls, inside)
        for place, holder in enumerate(holders):
            if holder is not None:
                raw = texts[place] if len(texts) == len(holders) else None
                holder[inside[-1]] = compact(holder[inside[-1]]) if raw is None else raw
    return value


def turns_with_raw_arguments(body: bytes, key: str, calls: Path, inside: Path) -> list[dict[str, Any]]:
    """The objects of the array `key` of a request, each with the arguments of its calls as text."""
    request = parse_object(body) or {}
    if f'"{inside[-1]}"'.encode() in body:
        text = text_of(body)
        try:
            turns = member(text, 0, key)
            if turns is not None and isinstance(turns.value, list):
                return [
                    with_raw_arguments(text[span.start : span.end], span.value, calls, inside)
                    for span in elements(text, turns.start)
                    if isinstance(span.value, dict)
                ]
        except ValueError:
            pass  # nested too deeply to be walked: the values are written anew below
    return [with_raw_arguments("", turn, calls, inside) for turn in as_objects(request.get(key))]


def _holder(call: Any, inside: Path) -> dict[str, Any] | None:
    """The object whose member is the arguments, where they are there and no text."""
    for key in inside[:-1]:
        call = call.get(key) if isinstance(call, dict) else None
    if not isinstance(call, dict) or call.get(inside[-1]) is None or isinstance(call[inside[-1]], str):
        return None
    return call


def _texts(text: str, calls: Path, inside: Path) -> list[str | None]:
    try:
        array = _at(text, 0, calls)
        if array is None:
            return []
        found = [
            _at(text, call.start, inside) if isinstance(call.value, dict) else None
            for call in elements(text, array.start)
        ]
    except ValueError:
        return []
    return [None if span is None else text[span.start : span.end] for span in found]


def _at(text: str, start: int, path: Path) -> Span | None:
    found = None
    for key in path:
        found = member(text, start, key)
        if found is None:
            return None
        start = found.start
    return found
