"""The requests of a run as pieces, each held once. Owns what two requests share and in which order pieces are laid out.

A request to a model repeats all messages before it, so a run's requests together are many times longer than what is
new in them. Each is cut only behind what it shares with one just before it. They are laid out from the last one back:
the longest request holds the messages of the others in order, so that the list of each is a few ranges. Knows nothing
of files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from otel_agent_replay.model import digest_of
from otel_agent_replay.payload.prefix import common_prefix
from otel_agent_replay.protocols.pieces import Cut, cut_request

_RECENT = 8
_RECENT_BYTES = 32 << 20

Ranges: TypeAlias = list[tuple[int, int]]
"""Of numbers: (first, how many)."""


class Piece(NamedTuple):
    """A piece of a request. `key` is equal for equal bytes."""

    key: bytes
    data: bytes
    role: str


Numbering: TypeAlias = Callable[[Piece, int], int]
"""Gives a piece its number, told that of the piece before it (-2: there is none)."""


@dataclass(slots=True)
class _Request:
    """The first `shared` pieces of `base`, then `own` ones. `numbers` are ranges, once it is laid out."""

    base: _Request | None
    shared: int
    own: list[Piece]
    continued: bool = False
    numbers: Ranges | None = None

    @property
    def count(self) -> int:
        return self.shared + len(self.own)


class _Recent(NamedTuple):
    """A request that the next may repeat: its bytes up to its last message, where pieces and messages end in them."""

    request: _Request
    protocol: str
    data: bytes
    ends: list[int]
    message_ends: list[int]


class RequestPieces:
    """Takes the requests of one run with `add`, in their order; then `laid_out` gives the ranges of each.

    Holds the pieces and the last few requests: memory grows with what is new.
    """

    def __init__(self) -> None:
        self._pieces: dict[bytes, Piece] = {}
        self._requests: dict[bytes, _Request] = {}
        self._recent: deque[_Recent] = deque(maxlen=_RECENT)

    def add(self, digest: bytes, protocol: str, data: bytes) -> bool:
        """Take the next request. False: it is in no form that is cut, and not taken."""
        recent, at = self._begun_alike(protocol, data)
        cut = cut_request(protocol, data, at) if at else Cut([], [])
        if not cut.ranges:
            recent, at, cut = None, 0, cut_request(protocol, data)
        if not cut.ranges:
            return False
        shared = 0 if recent is None else bisect_right(recent.ends, at)
        own = [self._piece(data[start:end], role) for start, end, role in cut.ranges]
        request = _Request(None if recent is None else recent.request, shared, own)
        if request.base is not None:
            request.base.continued = True
        self._requests[digest] = request
        self._remember(request, protocol, data, cut, recent, at)
        return True

    def laid_out(self, numbered: Numbering) -> Iterator[tuple[bytes, Ranges]]:
        """Yield the digest of each request with the numbers of its pieces, in the order in which they were taken."""
        ends = [request for request in self._requests.values() if not request.continued]
        for request in sorted(ends, key=lambda end: end.count, reverse=True):
            request.numbers = _numbered([], _all_pieces(request), numbered)
        for request in reversed(self._requests.values()):
            base = request.base
            if base is not None and base.numbers is None and request.numbers is not None:
                begin = _first(request.numbers, request.shared)
                base.numbers = _numbered(begin, _pieces_from(base, request.shared), numbered)
        for digest, request in self._requests.items():
            if request.numbers is None:
                raise AssertionError("a request was not laid out")
            yield digest, request.numbers

    def _begun_alike(self, protocol: str, data: bytes) -> tuple[_Recent | None, int]:
        """Return the recent request that `data` repeats most of, and where the last message that it repeats ends."""
        best: tuple[_Recent | None, int] = (None, 0)
        for recent in reversed(self._recent):
            if recent.protocol != protocol or len(recent.data) <= best[1]:
                continue
            same = len(recent.data) if data.startswith(recent.data) else common_prefix(recent.data, data)
            place = bisect_right(recent.message_ends, same)
            if place and recent.message_ends[place - 1] > best[1]:
                best = recent, recent.message_ends[place - 1]
        return best

    def _remember(
        self, request: _Request, protocol: str, data: bytes, cut: Cut, recent: _Recent | None, at: int
    ) -> None:
        message_ends = cut.message_ends
        ends = [end for _, end, _ in cut.ranges]
        if recent is not None:
            message_ends = recent.message_ends[: bisect_right(recent.message_ends, at)] + message_ends
            ends = recent.ends[: request.shared] + ends
        if not message_ends or message_ends[-1] > _RECENT_BYTES // 2:
            return
        self._recent.append(_Recent(request, protocol, data[: message_ends[-1]], ends, message_ends))
        while sum(len(one.data) for one in self._recent) > _RECENT_BYTES:
            self._recent.popleft()

    def _piece(self, data: bytes, role: str) -> Piece:
        key = data if len(data) < 32 else digest_of(data)
        return self._pieces.setdefault(key, Piece(key, data, role))


def _all_pieces(request: _Request) -> list[Piece]:
    """Return the pieces of a request in order."""
    return _pieces_from(request, 0)


def _pieces_from(request: _Request, first: int) -> list[Piece]:
    """Return the pieces of a request from the place `first` on."""
    parts: list[list[Piece]] = []
    at: _Request | None = request
    end = request.count
    while at is not None and end > first:
        begin = max(first, at.shared)
        if begin < end:
            parts.append(at.own[begin - at.shared : end - at.shared])
            end = begin
        end = min(end, at.shared)
        at = at.base
    return [piece for part in reversed(parts) for piece in part]


def _first(ranges: Ranges, count: int) -> Ranges:
    """Return the ranges of the first `count` numbers."""
    found: Ranges = []
    for first, size in ranges:
        if count <= 0:
            break
        found.append((first, min(size, count)))
        count -= size
    return found


def _numbered(begun: Ranges, pieces: list[Piece], numbered: Numbering) -> Ranges:
    """Return ranges that go on with the numbers of `pieces`."""
    ranges = begun
    previous = sum(ranges[-1]) - 1 if ranges else -2
    for piece in pieces:
        previous = numbered(piece, previous)
        if ranges and sum(ranges[-1]) == previous:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((previous, 1))
    return ranges
