"""A body as parts of an earlier one: what was copied, and from where; what is new.

An agent's state is handed over whole at every step and changes in a few places. Pure arithmetic on bytes: finds the
copied stretches wherever they lie, and puts the body together again. Knows no JSON; it looks for anchors where JSON
texts have borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from otel_agent_replay.payload.prefix import BodyHistory, common_prefix, common_suffix

BORDER = b',"'
"""What stands between two members of a JSON object or two texts of an array; texts are cut there to find anchors."""

SHORTEST_COPY = 32
"""Bytes: to say where a shorter stretch was copied from costs as much as to write it again."""

MOST_STATES = 4
"""How many of a run's last states a new one may be written as parts of: several may grow side by side."""

_MOSTLY_SHARED = 0.8  # of a body: no older base is tried
_SHORTEST_ANCHOR = 12
_FIRST_SEARCHES = 8  # of stretches that are not there, before every place is noted
_MOST_SEARCHES = 256
_LONG = 1024  # bytes without a border: looked into
_PROBES = 32
_MOST_TEXTS, _MOST_LOOKED_AT = 4, 64
_FIRST_BLOCK, _LARGEST_BLOCK = 64, 1 << 20


class Part(NamedTuple):
    """Bytes of a body: `data`, then the `size` bytes of the base that begin at `start`."""

    data: bytes
    start: int
    size: int


class Copy(NamedTuple):
    """A stretch of a body: `size` bytes from place `at` on are those from place `start` of the base on."""

    at: int
    start: int
    size: int


def parts_of(base: bytes, body: bytes, *, shortest_end: int = SHORTEST_COPY) -> list[Part]:
    """Return parts of `base` that make up `body`: `joined` gives it back.

    A common beginning or end shorter than `shortest_end` is written again. Takes time in proportion to what lies
    between the two.
    """
    prefix = common_prefix(base, body)
    suffix = common_suffix(base, body, min(len(base), len(body)) - prefix)
    copies = [Copy(0, 0, prefix)] if prefix >= shortest_end else []
    first = prefix if copies else 0
    last = len(body) - suffix if suffix >= shortest_end else len(body)
    copies += _copies(base, (prefix, len(base) - suffix), body, first, last)
    if last < len(body):
        copies.append(Copy(last, len(base) - suffix, suffix))
    parts: list[Part] = []
    done = 0
    for at, start, size in copies:
        parts.append(Part(body[done:at], start, size))
        done = at + size
    if done < len(body) or not parts:
        parts.append(Part(body[done:], 0, 0))
    return parts


def joined(base: bytes, parts: Sequence[Part]) -> bytes:
    """Return the body that `parts` of `base` make up."""
    return b"".join(piece for part in parts for piece in (part.data, base[part.start : part.start + part.size]))


def new_bytes(parts: Sequence[Part]) -> int:
    """Return how many bytes of the body are in no base."""
    return sum(len(part.data) for part in parts)


class StateHistory(BodyHistory):
    """The last few states of one run: bodies that change in several places at once. Not for several threads."""

    def __init__(self, *, shortest_end: int = SHORTEST_COPY) -> None:
        super().__init__(max_bodies=MOST_STATES, max_bytes=64 * 1024 * 1024)
        self._shortest_end = shortest_end

    def parts(self, body: bytes) -> tuple[bytes, list[Part]] | None:
        """Return the digest of an earlier body, and the parts of it that make up `body`. None: store it whole."""
        best: tuple[bytes, list[Part]] | None = None
        least = len(body) - SHORTEST_COPY
        for digest, base in self._newest_first():
            parts = parts_of(base, body, shortest_end=self._shortest_end)
            new = new_bytes(parts)
            if new < least:
                least, best = new, (digest, parts)
                if new <= len(body) * (1 - _MOSTLY_SHARED):
                    break
        return best


def _copies(base: bytes, within: tuple[int, int], body: bytes, first: int, last: int) -> list[Copy]:
    """Return what of `body[first:last]` is copied out of the base, `within` those places, in the body's order."""
    if last - first < SHORTEST_COPY or within[1] - within[0] < SHORTEST_COPY:
        return []
    anchors = _Anchors(base, *within)
    copies: list[Copy] = []
    done = first  # of the body is told
    place, whole = first, True  # where a stretch between borders begins; False: in the middle of one
    while place < last:
        end = body.find(BORDER, place, last)
        end = last if end < 0 else end
        found = anchors.place_of(body[place:end]) if whole and end - place >= _SHORTEST_ANCHOR else -1
        if found >= 0:
            back = _shared_before(base, found, body, place, done)
            size = back + _shared_after(base, found, body, place, last)
            if size >= SHORTEST_COPY:
                copies.append(Copy(place - back, found - back, size))
        elif end - done >= _LONG:
            copies += _in_long(base, anchors.next_long(), body, done, end)
        if copies:
            done = copies[-1].at + copies[-1].size
            anchors.expected = copies[-1].start + copies[-1].size
        whole = done <= end
        place = end + len(BORDER) if whole else done
    return copies


class _Anchors:
    """Where stretches between two borders lie in the base. `expected` is where the body would go on.

    Mostly it does so a little further on: only after some that are not there is every place of the base noted.
    """

    def __init__(self, base: bytes, first: int, last: int) -> None:
        self._base = base
        self._first = first
        self._last = last
        self._places: dict[bytes, int] | None = None
        self._searches = _MOST_SEARCHES
        self.expected = first

    def place_of(self, token: bytes) -> int:
        """Return where `token` lies, at or after `expected` where that is so; -1: nowhere."""
        places = self._places
        if places is None:
            found = self._base.find(token, self.expected, self._last)
            if found < 0:
                self._searches -= 1
                if self._searches <= _MOST_SEARCHES - _FIRST_SEARCHES:
                    self._places = self._noted()
                    return self._places.get(token, -1)
            return found
        found = places.get(token, -1)
        if 0 <= found < self.expected and self._searches:
            self._searches -= 1
            further = self._base.find(token, self.expected, self._last)
            return found if further < 0 else further
        return found

    def next_long(self) -> list[tuple[int, int]]:
        """Return beginning and end of the next few stretches without a border that are long."""
        found: list[tuple[int, int]] = []
        start = self.expected
        for _ in range(_MOST_LOOKED_AT):
            end = self._base.find(BORDER, start, self._last)
            end = self._last if end < 0 else end
            if end - start >= _LONG:
                found.append((start, end))
            start = end + len(BORDER)
            if start >= self._last or len(found) == _MOST_TEXTS:
                break
        return found

    def _noted(self) -> dict[bytes, int]:
        places: dict[bytes, int] = {}
        at = self._first
        for token in self._base[self._first : self._last].split(BORDER):
            if len(token) >= _SHORTEST_ANCHOR:
                places.setdefault(token, at)
            at += len(token) + len(BORDER)
        return places


def _in_long(base: bytes, texts: Sequence[tuple[int, int]], body: bytes, first: int, last: int) -> list[Copy]:
    """Return what a long text without a border, `body[first:last]`, shares with one of the base's, `texts`.

    Looks for a few probes out of the next ones: a text that was added to, or cut, or changed in a few places, has most.
    """
    for start, end in texts:
        copies: list[Copy] = []
        done = first
        for probe in range(start, end - SHORTEST_COPY, max(SHORTEST_COPY, (end - start) // _PROBES)):
            if copies and probe < copies[-1].start + copies[-1].size:
                continue
            found = body.find(base[probe : probe + SHORTEST_COPY], done, last)
            if found >= 0:
                back = _shared_before(base, probe, body, found, done)
                size = back + _shared_after(base, probe, body, found, last)
                copies.append(Copy(found - back, probe - back, size))
                done = found - back + size
        if copies:
            return copies
    return []


def _shared_after(base: bytes, start: int, body: bytes, at: int, last: int) -> int:
    """Return how many bytes from `base[start]` and `body[at]` on are equal."""
    limit = min(len(base) - start, last - at)
    size, block = 0, _FIRST_BLOCK
    while size + block <= limit and base[start + size : start + size + block] == body[at + size : at + size + block]:
        size += block
        block = min(2 * block, _LARGEST_BLOCK)
    end = min(size + block, limit)
    return size + common_prefix(base[start + size : start + end], body[at + size : at + end])


def _shared_before(base: bytes, start: int, body: bytes, at: int, done: int) -> int:
    """Return how many bytes just before `base[start]` and `body[at]` are equal, none of them told already."""
    limit = min(start, at - done)
    size, block = 0, _FIRST_BLOCK
    while size + block <= limit and (base[start - size - block : start - size] == body[at - size - block : at - size]):
        size += block
        block = min(2 * block, _LARGEST_BLOCK)
    end = min(size + block, limit)
    return size + common_suffix(base[start - end : start - size], body[at - end : at - size], end - size)
