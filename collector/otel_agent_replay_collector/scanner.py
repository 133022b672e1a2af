"""Whether a request may hold anything that must be masked: one pass over its bytes with a fast multi-pattern engine.

Hyperscan where it is installed (the extra `collector`, a few GB/s), else RE2 as Arrow has it (a sixth of that). Both
look for `payload.markers` and give the same answer.
"""

from __future__ import annotations

import threading
from typing import Any

from otel_agent_replay.payload.markers import ANY_CASE, EXACT_CASE


class HyperscanScanner:
    """Looks for the markers by Hyperscan. May be used from several threads. Raises ImportError where it is absent."""

    name = "hyperscan"

    def __init__(self) -> None:
        import hyperscan

        one_match = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
        flags = [one_match | hyperscan.HS_FLAG_CASELESS] * len(ANY_CASE) + [one_match] * len(EXACT_CASE)
        expressions = [*ANY_CASE, *EXACT_CASE]
        self._database: Any = hyperscan.Database()
        self._database.compile(
            expressions=expressions, ids=list(range(len(expressions))), elements=len(expressions), flags=flags
        )
        self._new_scratch: Any = hyperscan.Scratch
        self._of_thread = threading.local()

    def may_hold(self, data: bytes | memoryview) -> bool:
        """Return whether a marker is in `data`."""
        scratch = getattr(self._of_thread, "scratch", None)
        if scratch is None:
            scratch = self._of_thread.scratch = self._new_scratch(self._database)
        found: list[int] = []
        self._database.scan(data, match_event_handler=lambda number, *_: found.append(number), scratch=scratch)
        return bool(found)


class Re2Scanner:
    """Looks for the markers by Arrow's RE2. May be used from several threads."""

    name = "re2"

    def __init__(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        exact = "|".join(marker.decode() for marker in EXACT_CASE)
        caseless = "|".join(marker.decode() for marker in ANY_CASE)
        pattern = f"(?s)(?:{exact}|(?i:{caseless}))"

        def search(data: bytes | memoryview) -> bool:
            offsets = pa.py_buffer(bytes(8) + len(data).to_bytes(8, "little"))
            one = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)])
            return bool(pc.match_substring_regex(one, pattern)[0].as_py())

        self._search = search

    def may_hold(self, data: bytes | memoryview) -> bool:
        """Return whether a marker is in `data`."""
        return self._search(data)


def make_scanner() -> Any:
    """Return the fastest scanner that is installed."""
    try:
        return HyperscanScanner()
    except ImportError:
        return Re2Scanner()
