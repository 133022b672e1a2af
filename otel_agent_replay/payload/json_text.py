"""A tolerant walk over the text of JSON: where each value lies and under which path.

Unlike a parser it gives places, not values, and it never fails: a body that was cut off is walked as far as it
goes. It must know no rule and no protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

Path = tuple["str | int", ...]


class Found(NamedTuple):
    """One value: its path, its range in the text, and whether it is a key, text, container or bare word.

    The range of a text lies inside its quotes; that of anything else is the whole value.
    """

    path: Path
    start: int
    end: int
    kind: str  # "key", "text", "container", "bare"


_TOKEN = re.compile(r'[\s,:]*(?:"([^"\\]*(?:\\.[^"\\]*)*)("|\\?\Z)|([{\[])|([}\]])|([^\s,:{}\[\]"]+))', re.DOTALL)


class _Open:
    """An object or array that the walk is inside of."""

    __slots__ = ("index", "is_array", "key", "start")

    def __init__(self, start: int, *, is_array: bool) -> None:
        self.start = start
        self.is_array = is_array
        self.index = -1
        self.key: str | None = None


def walk(text: str) -> Iterator[Found]:
    """Yield every key and value in the order in which they end. Never raises."""
    stack: list[_Open] = []
    path: list[str | int] = []
    position = 0
    match = _TOKEN.match(text)
    while match is not None and match.end() > position:
        position = match.end()
        group = match.lastindex or 0
        if group == 2:
            yield from _text(match, stack, path, text)
        elif group == 3:
            _enter(stack, path)
            stack.append(_Open(match.start(3), is_array=match[3] == "["))
            path.append("")
        elif group == 4:
            if stack:
                opened = stack.pop()
                path.pop()
                yield Found(tuple(path), opened.start, position, "container")
                _leave(stack)
        else:
            _enter(stack, path)
            yield Found(tuple(path), match.start(5), match.end(5), "bare")
            _leave(stack)
        match = _TOKEN.match(text, position)


def _text(match: re.Match[str], stack: list[_Open], path: list[str | int], text: str) -> Iterator[Found]:
    start, end = match.span(1)
    top = stack[-1] if stack else None
    if top is not None and not top.is_array and top.key is None:
        top.key = unescaped(text[start:end])
        path[-1] = top.key
        yield Found(tuple(path), start, end, "key")
        return
    _enter(stack, path)
    yield Found(tuple(path), start, end, "text")
    _leave(stack)


def _enter(stack: list[_Open], path: list[str | int]) -> None:
    """Name the value that begins: in an array it is the next one."""
    if stack and stack[-1].is_array:
        stack[-1].index += 1
        path[-1] = stack[-1].index


def _leave(stack: list[_Open]) -> None:
    if stack:
        stack[-1].key = None


# --- the text inside a JSON string ----------------------------------------------------------------------------

_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL
)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def unescaped(raw: str) -> str:
    """Return the text that `raw` (what stands between the quotes) means; a broken escape stands for itself."""
    return raw if "\\" not in raw else "".join(_meaning(match[0]) for match in _PIECE.finditer(raw))


def _meaning(piece: str) -> str:
    if piece[0] != "\\":
        return piece
    if len(piece) >= 6:
        meaning: str = json.loads(f'"{piece}"')
        return meaning
    return _SHORT.get(piece[1], piece[1])


def places(raw: str) -> Callable[[int], int]:
    """Return a function from a position in `unescaped(raw)` to the position in `raw`."""
    if "\\" not in raw:
        return lambda position: position
    starts: list[tuple[int, int, int]] = []  # position in the meaning, position in raw, characters that map one to one
    meant = 0
    for match in _PIECE.finditer(raw):
        plain = match[0][0] != "\\"
        length = len(match[0]) if plain else 1
        starts.append((meant, match.start(), length if plain else 0))
        meant += length
    starts.append((meant, len(raw), 0))

    def place(position: int) -> int:
        low, high = 0, len(starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if starts[middle][0] <= position:
                low = middle
            else:
                high = middle - 1
        meaning, at, _ = starts[low]
        return at + (position - meaning)

    return place
