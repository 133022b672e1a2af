"""Ways to cut a body, drawn by number from a seed, and the smallest of them that still breaks something.

A network cuts anywhere, and parsers break at few places: inside a character, between CR and LF, in a frame's head. So
the kinds of cutting take turns: few cuts, many, pieces of one size, cuts where it hurts, and a stretch byte by byte.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

Chunking = tuple[int, ...]
"""Offsets in bytes at which a body is cut, rising; an offset that comes twice makes an empty piece."""

_SORE = re.compile(rb"[\r\n\x80-\xff\\\"{}:]")
_MOST = 200  # pieces; a body of a megabyte is not cut into a million
_STRETCH = 120  # bytes
_TRIES = 2_000


def chunking(body: bytes, number: int, seed: int) -> Chunking:
    """The `number`th cutting of `body` for `seed`: the same for ever, whatever else is cut.

    >>> chunking(b"abcdef", 0, seed=1) == chunking(b"abcdef", 0, seed=1)
    True
    """
    size = len(body)
    if size < 2:
        return ()
    draw = random.Random(f"{seed}/{number}/{size}")  # noqa: S311 - it cuts, it protects nothing
    cuts = _KINDS[number % len(_KINDS)](draw, body)
    if cuts and not draw.randrange(4):
        cuts.append(draw.choice(cuts))  # an empty piece: a reader may hand one out
    return tuple(sorted(cuts))


def pieces(body: bytes, cuts: Chunking) -> list[bytes]:
    """`body` cut at `cuts`."""
    edges = (0, *cuts, len(body))
    return [body[start:end] for start, end in pairwise(edges)]


def smallest(cuts: Chunking, fails: Callable[[Chunking], bool]) -> Chunking:
    """The cuts of `cuts` without which `fails` no longer holds; it holds for what is returned, if it does for `cuts`.

    No single cut can be left out of the result, unless it took more than a few thousand tries.
    """
    tries = 0
    width = max(1, len(cuts) // 2)
    while cuts and tries < _TRIES:
        at, removed = 0, False
        while at < len(cuts) and tries < _TRIES:
            fewer = cuts[:at] + cuts[at + width :]
            tries += 1
            if fails(fewer):
                cuts, removed = fewer, True
            else:
                at += width
        if width == 1 and not removed:
            break
        width = max(1, width // 2)
    return cuts


def around(body: bytes, cut: int, reach: int = 16) -> tuple[bytes, bytes]:
    """The bytes before and after a cut, for eyes."""
    return body[max(0, cut - reach) : cut], body[cut : cut + reach]


def _few(draw: random.Random, body: bytes) -> list[int]:
    return [draw.randrange(1, len(body)) for _ in range(draw.randint(1, 3))]


def _many(draw: random.Random, body: bytes) -> list[int]:
    return [draw.randrange(1, len(body)) for _ in range(draw.randint(2, min(_MOST, max(2, len(body) // 8))))]


def _one_size(draw: random.Random, body: bytes) -> list[int]:
    size = max(draw.randint(1, 9), len(body) // _MOST)
    return list(range(size, len(body), size))


def _where_it_hurts(draw: random.Random, body: bytes) -> list[int]:
    start = draw.randrange(len(body))
    found = _sore_places(body, start) or _sore_places(body, 0)
    chosen = [at for at in found if draw.randrange(2)]
    return chosen or _few(draw, body)


def _sore_places(body: bytes, start: int) -> Sequence[int]:
    places: list[int] = []
    for match in _SORE.finditer(body, start):
        places.append(match.end())
        if len(places) == _MOST:
            break
    return [place for place in places if place < len(body)]


def _stretch(draw: random.Random, body: bytes) -> list[int]:
    start = draw.randrange(1, len(body))
    return list(range(start, min(len(body), start + _STRETCH)))


_KINDS: Sequence[Callable[[random.Random, bytes], list[int]]] = (_few, _many, _one_size, _where_it_hurts, _stretch)
