"""A tolerant walk over the text of JSON: where each value lies and under which path.

Unlike a parser it gives places, not values, and it never fails: a body that was cut off is walked as far as it
goes. It must know no rule and no protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from otel_agent_replay.patterns import late

Path = tuple["str | int", ...]


class Found(NamedTuple):
    """One value: its path, its range in the text, and whether it is a key, text, container or bare word.

    The range of a text lies inside its quotes; that of anything else is the whole value.
    """

    path: Path
    start: int
    end: int
    kind: str  # "key", "text", "container", "bare"


_TOKEN = late(r'[\s,:]*(?:"([^"\\]*(?:\\.[^"\\]*)*)("|\\?\Z)|([{\[])|([}\]])|([^\s,:{}\[\]"]+))', re.DOTALL)


def walk(text: str) -> Iterator[Found]:
    """Yield every key and value in the order in which they end. Never raises."""
    stack: list[tuple[Path, int, int]] = []  # what contains the container: its path and next item; where this one began
    path: Path = ()  # of the value that comes next
    home: Path = ()  # of the container that the walk is in
    index = -1  # of the next item of an array; -1 in an object
    has_key = True  # false where an object's next text is a key
    position = 0
    token = _TOKEN.match
    match = token(text)
    while match is not None and match.end() > position:
        position = match.end()
        group = match.lastindex
        if index >= 0 and group != _CLOSE:
            path = (*home, index)
            index += 1
        if group == _TEXT:
            start, end = match.span(1)
            if not has_key:
                path = (*home, unescaped(text[start:end]))
                has_key = True
                yield Found(path, start, end, "key")
            else:
                yield Found(path, start, end, "text")
                has_key = index >= 0 or not stack
        elif group == _OPEN:
            stack.append((home, index, match.start(_OPEN)))
            home = path
            is_array = match[_OPEN] == "["
            index, has_key = (0, True) if is_array else (-1, False)
        elif group == _BARE:
            start, end = match.span(_BARE)
            yield Found(path, start, end, "bare")
            has_key = index >= 0 or not stack
        elif stack:
            closed = home
            home, index, start = stack.pop()
            has_key = index >= 0 or not stack
            yield Found(closed, start, position, "container")
        match = token(text, position)
    while stack:  # the text was cut off inside of these
        closed = home
        home, _, start = stack.pop()
        yield Found(closed, start, len(text), "container")


_TEXT, _OPEN, _CLOSE, _BARE = 2, 3, 4, 5  # groups of _TOKEN


# --- the text inside a JSON string ----------------------------------------------------------------------------

_PIECE = late(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL)
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
