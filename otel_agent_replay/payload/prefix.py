"""What two bodies share: an agent's request repeats the one before it and adds to its end.

Pure arithmetic on bytes. Finds the shared beginning and end, and remembers a run's last bodies so that a new
one can be written as its difference to one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

_BLOCK = 4096
_SHORT_TAIL = 16
_ONE_LOOK = 1 << 16  # bytes that may be compared in vain
_MINIMUM_SAVED = 64  # a delta that saves less than this is not worth the indirection

_GOOD_ENOUGH = 0.8  # of a body found in a recent one; older ones seldom share more


def common_prefix(a: bytes, b: bytes) -> int:
    """Return how many bytes `a` and `b` share at their beginning."""
    limit = min(len(a), len(b))
    low = 0
    if _SHORT_TAIL < limit <= _ONE_LOOK and a[: limit - _SHORT_TAIL] == b[: limit - _SHORT_TAIL]:
        low = limit - _SHORT_TAIL  # as where one goes on from the other
    while low + _BLOCK <= limit and a[low : low + _BLOCK] == b[low : low + _BLOCK]:
        low += _BLOCK
    high = min(low + _BLOCK, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: bytes, b: bytes, limit: int) -> int:
    """Return how many bytes, at most `limit`, `a` and `b` share at their end."""
    limit = min(len(a), len(b), limit)
    low, step = 0, _SHORT_TAIL  # most share the brackets that close a document, and no more
    while low + step <= limit and _same_tail(a, b, low, low + step):
        low += step
        step = min(2 * step, _BLOCK)
    high = min(low + step, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if _same_tail(a, b, low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _same_tail(a: bytes, b: bytes, near: int, far: int) -> bool:
    return a[len(a) - far : len(a) - near] == b[len(b) - far : len(b) - near]


class BodyHistory:
    """The last few bodies of one run, at most `max_bodies` and `max_bytes` of them. Not for several threads."""

    def __init__(self, *, max_bodies: int = 8, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._bodies: deque[tuple[bytes, bytes]] = deque()
        self._max_bodies = max_bodies
        self._max_bytes = max_bytes
        self._size = 0

    @property
    def count(self) -> int:
        """Bodies held."""
        return len(self._bodies)

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._size

    def remember(self, digest: bytes, body: bytes) -> None:
        """Keep `body` as a base for later ones; the oldest go when a bound is passed."""
        if len(body) > self._max_bytes:
            return
        self._bodies.append((digest, body))
        self._size += len(body)
        while len(self._bodies) > self._max_bodies or self._size > self._max_bytes:
            self._size -= len(self._bodies.popleft()[1])

    def delta(self, body: bytes) -> tuple[bytes, int, int] | None:
        """Return (base digest, prefix, suffix): `body` is base[:prefix] + its own middle + base[-suffix:].

        None when no remembered body saves enough: store it whole.
        """
        best: tuple[bytes, int, int] | None = None
        saved = _MINIMUM_SAVED
        for digest, base in self._newest_first():
            prefix = common_prefix(base, body)
            suffix = common_suffix(base, body, min(len(base), len(body)) - prefix)
            if prefix + suffix > saved:
                saved, best = prefix + suffix, (digest, prefix, suffix)
                if saved >= len(body) * _GOOD_ENOUGH:
                    break
        return best

    def _newest_first(self) -> Iterator[tuple[bytes, bytes]]:
        return reversed(self._bodies)
