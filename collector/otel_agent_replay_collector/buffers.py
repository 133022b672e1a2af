"""Page-aligned buffers for requests, used again and again, within a stated sum.

A request is read from its socket into such a buffer, behind room for its frame's header, and written to disk out of it:
the kernel can take it without copying (`O_DIRECT`), and no memory is given back and asked for again with each request.
"""

from __future__ import annotations

import mmap
import threading

from otel_agent_replay_collector.request_file import HEADER, PAGE, rounded

_SMALLEST = 16 << 10
_KEPT_SHARE = 4  # of all that may be in use, a fourth is kept when it is not


class Buffer:
    """One buffer. `body` is where `size` bytes of a request go; `frame` is the whole, its end rounded up to a page."""

    __slots__ = ("_memory", "_pool", "capacity", "view")

    def __init__(self, pool: BufferPool, capacity: int) -> None:
        self._pool = pool
        self._memory = mmap.mmap(-1, capacity)
        self.view = memoryview(self._memory)
        self.capacity = capacity

    def body(self, size: int) -> memoryview:
        """Return the place of a request of `size` bytes."""
        return self.view[HEADER : HEADER + size]

    def release(self) -> None:
        """Give it back; nothing of it may be used afterwards."""
        self._pool.give_back(self)


class BufferPool:
    """Hands out buffers, together never more than `most` bytes. May be used from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._kept_bytes = 0
        self._kept: dict[int, list[Buffer]] = {}
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes handed out."""
        return self._used

    def take(self, size: int) -> Buffer | None:
        """Return a buffer for a request of `size` bytes; None when too much is in use."""
        capacity = _capacity(size)
        with self._lock:
            if self._used and self._used + capacity > self._most:
                return None
            self._used += capacity
            kept = self._kept.get(capacity)
            if kept:
                self._kept_bytes -= capacity
                return kept.pop()
        return Buffer(self, capacity)

    def give_back(self, buffer: Buffer) -> None:
        """Take a buffer back, to be used again or let go."""
        with self._lock:
            self._used -= buffer.capacity
            if self._kept_bytes + buffer.capacity <= self._most // _KEPT_SHARE:
                self._kept_bytes += buffer.capacity
                self._kept.setdefault(buffer.capacity, []).append(buffer)


def _capacity(size: int) -> int:
    """Return a size that many requests share: a power of two, or half as much again."""
    wanted = max(_SMALLEST, rounded(HEADER + size, PAGE))
    power = 1 << (wanted - 1).bit_length()
    return power * 3 // 4 if wanted <= power * 3 // 4 else power
