"""Streams whose events are alike, as those of models are: quickly known to hold nothing that must be masked.

Such a stream is one beginning, again and again, a piece of text after each, and a few endings. Whether it can hold
anything is asked of the beginning once, of each ending once, and of the text that the pieces spell together. Nothing is
found here, only ruled out: a stream of another form, or one that may hold something, is left to the whole search.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from otel_agent_replay.patterns import late
from otel_agent_replay.payload.credentials import has_no_token, is_plain
from otel_agent_replay.payload.stream_text import PIECE_NAMES

_FEWEST = 6  # events alike; where there are fewer the whole search is as quick
_PIECE_BEGINS = late(rb'"(?:' + "|".join(sorted(PIECE_NAMES)).encode() + rb')":\s*"(?!")')
_PIECE = late(rb'[^"\\]*(?:\\.[^"\\]*)*(?=")', re.DOTALL)


def holds_nothing(data: bytes, may_hold_secret: Callable[[bytes], bool]) -> bool:
    """Return whether neither a stream nor the text that its events spell can hold a credential; False says nothing.

    `may_hold_secret` tells whether a learnt secret may be in bytes of which only parts are at hand.
    """
    beginning = _beginning(data)
    first, *parts = data.split(beginning) if beginning else [data]
    if len(parts) < _FEWEST or first[-1:] not in b"\n":
        return False
    cut = [part.partition(b'"') for part in parts]
    text = b"".join([piece for piece, _, _ in cut])
    if b"\\" in text:  # an escaped quote may not end its piece
        cut = [(piece[0], b'"', part[piece.end() + 1 :]) for part in parts if (piece := _PIECE.match(part)) is not None]
        text = b"".join([piece for piece, _, _ in cut])
    endings = dict.fromkeys([ending for _, _, ending in cut])
    if len(cut) < len(parts) or any(ending[-1:] != b"\n" for ending in endings):
        return False
    # What lies around the pieces, each of it once. It is parted from them by quotes and from its like by the ends of
    # lines, over which no token, no name with its value and no learnt secret's unbroken part reaches.
    around = b'"'.join((first + beginning, *endings))
    return (
        is_plain(text)
        and is_plain(around, True)
        and has_no_token(around)
        and _PIECE_BEGINS.search(around) is None  # no other piece of the same text, or of another
        and not may_hold_secret(text)
        and not may_hold_secret(around)
    )


def _beginning(data: bytes) -> bytes:
    """Return how an event in the middle of a stream begins, up to the piece of text in it; b"" where it has none."""
    half = len(data) // 2
    start = max(data.rfind(b"\ndata:", 0, half), data.rfind(b"\n{", 0, half)) + 1
    piece = _PIECE_BEGINS.search(data, start, data.find(b"\n", start))
    return b"" if piece is None else data[start : piece.end()]
