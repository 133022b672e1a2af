"""The last bodies in which nothing was found: one that repeats them is looked at only where it is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from otel_agent_replay.payload.prefix import common_prefix, common_suffix

SMALL = 3_072
"""Bytes below which looking is cheaper than comparing."""
_LITTLE_NEW = 4_096
"""Bytes to be looked at beside `reach`: that few are looked at in less time than another body is compared."""
_MOST = 4
_MOST_BYTES = 1024 * 1024

Spans = list[tuple[int, int]]


class CleanBodies:
    """A few clean bodies. May be used from several threads: each operation on the deque is one step."""

    def __init__(self) -> None:
        self._bodies: deque[tuple[int, bytes]] = deque(maxlen=_MOST)

    def find(self, data: bytes, version: int, reach: int, find: Callable[[bytes], Spans]) -> Spans:
        """Return `find(data)`.

        `version` names what `find` looks for: bodies found clean for another do not count. `reach` is how many bytes
        one thing to be found takes at most to be seen.
        """
        if len(data) > _MOST_BYTES:
            return find(data)
        low, high = 0, len(data)
        for known, base in reversed(tuple(self._bodies)):  # most repeat the last one
            if known != version:
                continue
            prefix = common_prefix(base, data)
            suffix = common_suffix(base, data, min(len(base), len(data)) - prefix)
            start, end = max(0, prefix - reach), min(len(data), len(data) - suffix + reach)
            if end - start < high - low:
                low, high = start, end
                if high - low <= _LITTLE_NEW + 2 * reach:
                    break
        found = find(data[low:high] if high - low < len(data) else data)
        if found and high - low < len(data):
            found = find(data)
        if not found:
            self._bodies.append((version, data))
        return found
