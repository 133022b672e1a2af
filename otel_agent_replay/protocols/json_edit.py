"""A JSON text with one value changed: every character outside that value stays as it is.

Prompt caches, signatures and digests hang on exact bytes, so a text is edited where the value lies and never
written anew. New members and elements follow the spacing of the text around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.patterns import late
from otel_agent_replay.protocols.json_spans import Span, elements, member, members

Path = tuple[str | int, ...]

_PART = late(r'\[(-?\d+)\]|\["((?:[^"\\]|\\.)*)"\]|(?:^|\.)([^.\[\]"]+)')
_SPACE = late(r"[ \t\n\r]*")
_SURROGATE = late("[\ud800-\udfff]")
_FIRST_COLON = late(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:(\s?)')


def parse_path(text: str) -> Path:
    """Return the parts of `tools[0].function.description`; a key with dots in it is written `["a.b"]`.

    A leading `$.` is allowed and means nothing; `[-1]` is the last element. Raises ConfigurationError.
    """
    given = text.removeprefix("$.")
    parts: list[str | int] = []
    at = 0
    while at < len(given):
        found = _PART.match(given, at)
        if found is None:
            break
        index, quoted, name = found.groups()
        if index is not None:
            parts.append(int(index))
        else:
            parts.append(name if quoted is None else _unquoted(quoted, text))
        at = found.end()
    if not parts or at < len(given):
        raise ConfigurationError(f"{text!r} is no path into a request; write it like `tools[0].function.description`")
    return tuple(parts)


def _unquoted(quoted: str, path: str) -> str:
    try:
        key: str = json.loads(f'"{quoted}"')
    except ValueError as error:
        raise ConfigurationError(f"{path!r} is no path into a request: {error}") from error
    return key


def shown(path: Path) -> str:
    """Return the path as text, the way `parse_path` reads it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r'[^.\[\]"\\]+', part) and part != "$":
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def with_value(text: str, path: Path, value: Any) -> str:
    """Return `text` with `value` at `path`: replaced, or put in where the path ends in something that is not there.

    An element may be added just behind the last one. Raises ConfigurationError where the path leads through
    something that is neither object nor array.
    """
    at = 0
    for number, part in enumerate(path):
        rest = path[number + 1 :]
        if isinstance(part, str):
            _must_be(text, at, "{", path[:number])
            found = member(text, at, part)
            if found is None:
                return _with_member(text, at, part, _nested(rest, value, path))
        else:
            _must_be(text, at, "[", path[:number])
            inside = list(elements(text, at))
            if part == len(inside):
                return with_elements(text, at, part, [_nested(rest, value, path)])
            if not -len(inside) <= part < len(inside):
                raise ConfigurationError(
                    f"{shown(path[: number + 1])} is not in the request: there are {len(inside)} of them"
                )
            found = inside[part]
        if not rest:
            return replaced(text, [(found.start, found.end, written(text, value))])
        at = found.start
    raise AssertionError("a path has parts")


def without_member(text: str, path: Path) -> str:
    """Return `text` without the member at `path`; the same text when it is not there."""
    name = path[-1]
    if not isinstance(name, str):
        raise ConfigurationError(f"{shown(path)}: an element of an array cannot be removed, set the whole array")
    at = 0
    for number, part in enumerate(path[:-1]):
        inside = list(elements(text, at)) if text[at : at + 1] == "[" else None
        if isinstance(part, str):
            _must_be(text, at, "{", path[:number])
            found = member(text, at, part)
        else:
            found = inside[part] if inside is not None and -len(inside) <= part < len(inside) else None
        if found is None:
            return text
        at = found.start
    _must_be(text, at, "{", path[:-1])
    inside = list(members(text, at))
    return _without(text, inside, [place for place, one in enumerate(inside) if one.key == name])


def without_elements(text: str, start: int, gone: Sequence[int]) -> str:
    """Return `text` without the elements at the places `gone` of the array at `start`."""
    return _without(text, list(elements(text, start)), gone)


def with_elements(text: str, start: int, place: int, values: Sequence[Any]) -> str:
    """Return `text` with `values` put in before element `place` of the array at `start`; at its end if that is none."""
    inside = list(elements(text, start))
    texts = [written(text, value) for value in values]
    opening = _after(text, _after(text, start) + 1)
    if not inside:
        return replaced(text, [(opening, opening, f",{_air(text)}".join(texts))])
    comma = "," + _gap(text, inside, opening)
    if place < len(inside):
        return replaced(text, [(inside[place].begin, inside[place].begin, comma.join([*texts, ""]))])
    return replaced(text, [(inside[-1].end, inside[-1].end, comma + comma.join(texts))])


def replaced(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return `text` with each (start, end, new) replaced; they must not overlap."""
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def written(text: str, value: Any) -> str:
    """Return `value` as JSON text in the spacing of `text`."""
    air = _air(text)
    made = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=("," + air, ":" + air))
    if _SURROGATE.search(made):  # half a character can only travel as an escape
        return json.dumps(value, allow_nan=False, separators=("," + air, ":" + air))
    return made


def _with_member(text: str, start: int, key: str, value: Any) -> str:
    inside = list(members(text, start))
    new = f"{written(text, key)}:{_air(text)}{written(text, value)}"
    opening = _after(text, _after(text, start) + 1)
    if not inside:
        return replaced(text, [(opening, opening, new)])
    return replaced(text, [(inside[-1].end, inside[-1].end, "," + _gap(text, inside, opening) + new)])


def _without(text: str, inside: list[Span], gone: Sequence[int]) -> str:
    left = len(inside)
    for place in sorted(gone, reverse=True):  # from the end, so that what lies before keeps its place
        one = inside[place]
        if place + 1 < left:
            text = text[: one.begin] + text[inside[place + 1].begin :]
        else:  # the last one takes the comma before it along
            left = place
            text = text[: inside[place - 1].end if place else one.begin] + text[one.end :]
    return text


def _nested(rest: Path, value: Any, path: Path) -> Any:
    """Return `value` inside the containers that the rest of a path names and the request does not have."""
    for part in reversed(rest):
        if isinstance(part, str):
            value = {part: value}
        elif part == 0:
            value = [value]
        else:
            raise ConfigurationError(f"{shown(path)} is not in the request, and an array begins with element 0")
    return value


def _must_be(text: str, start: int, mark: str, path: Path) -> None:
    at = _after(text, start)
    if text[at : at + 1] != mark:
        kind = "an object" if mark == "{" else "an array"
        raise ConfigurationError(f"{shown(path) or 'the request'} is not {kind}: {text[at : at + 40]!r}")


def _air(text: str) -> str:
    """Return what follows a colon in this text: a space or nothing."""
    found = _FIRST_COLON.match(text)
    return " " if found is not None and found.group(1) else ""


def _gap(text: str, inside: list[Span], opening: int) -> str:
    """Return what stands between a comma and what follows it in this container."""
    if len(inside) > 1:
        comma = _after(text, inside[-2].end)
        return text[comma + 1 : inside[-1].begin]
    before = text[_back(text, opening) : opening]
    return before if "\n" in before else _air(text)


def _after(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _back(text: str, at: int) -> int:
    while at and text[at - 1] in " \t\n\r":
        at -= 1
    return at
