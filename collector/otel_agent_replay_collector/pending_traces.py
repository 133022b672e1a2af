"""Which traces wait in the segments of accepted requests, and where: an index, without their contents.

Owns when a trace is complete. Its spans stay on disk until it is landed, so that memory is a few hundred bytes a trace,
whatever they hold. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

NO_TRACE = b""
"""Key of log records that name no trace: they wait for nobody."""


@dataclass(slots=True)
class PendingTrace:
    """A trace that is not landed. Times are Unix nanoseconds of arrival, `places` the requests with parts of it."""

    first_ns: int
    last_ns: int
    items: int = 0
    places: set[int] = field(default_factory=set)


class PendingTraces:
    """Traces by id, and for each request how many of them still need it.

    A trace is complete when nothing of it came for `quiet_s` seconds, when its first part is `longest_s` seconds old,
    or when it has `most_items` spans and records.
    """

    def __init__(self, *, quiet_s: float, longest_s: float, most_items: int) -> None:
        self._quiet_ns = int(quiet_s * 1e9)
        self._longest_ns = int(longest_s * 1e9)
        self._most_items = most_items
        self._traces: dict[bytes, PendingTrace] = {}
        self._needed: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def items(self) -> int:
        """Spans and records that wait."""
        return sum(trace.items for trace in self._traces.values())

    def add(self, place: int, time_ns: int, items: dict[bytes, int]) -> None:
        """Note a request: how many spans and records of each trace it holds."""
        self._needed[place] = len(items)
        for trace_id, count in items.items():
            trace = self._traces.get(trace_id)
            if trace is None:
                trace = self._traces[trace_id] = PendingTrace(time_ns, time_ns)
            trace.first_ns, trace.last_ns = min(trace.first_ns, time_ns), max(trace.last_ns, time_ns)
            trace.items += count
            trace.places.add(place)

    def complete(self, now_ns: int, *, all_of_them: bool = False) -> list[bytes]:
        """Return the traces that can be landed, oldest first."""
        found = [
            (trace.first_ns, trace_id)
            for trace_id, trace in self._traces.items()
            if all_of_them
            or now_ns - trace.last_ns >= self._quiet_ns
            or now_ns - trace.first_ns >= self._longest_ns
            or trace.items >= self._most_items
            or trace_id == NO_TRACE
        ]
        return [trace_id for _, trace_id in sorted(found)]

    def batches(self, trace_ids: Iterable[bytes], most_items: int) -> list[list[bytes]]:
        """Return the traces in groups of about `most_items` spans and records, at least one trace each."""
        groups: list[list[bytes]] = []
        size = most_items
        for trace_id in trace_ids:
            items = self._traces[trace_id].items
            if size + items > most_items:
                groups.append([])
                size = 0
            groups[-1].append(trace_id)
            size += items
        return groups

    def places_of(self, trace_ids: Iterable[bytes]) -> list[int]:
        """Return the requests that hold parts of any of these traces, in order of arrival."""
        return sorted(set().union(*(self._traces[trace_id].places for trace_id in trace_ids)))

    def items_of(self, trace_ids: Iterable[bytes]) -> int:
        """Return how many spans and records of these traces wait."""
        return sum(self._traces[trace_id].items for trace_id in trace_ids)

    def set_aside(self, trace_id: bytes) -> None:
        """Forget a trace that cannot be landed; its requests stay needed."""
        del self._traces[trace_id]

    def landed(self, trace_ids: Iterable[bytes]) -> list[int]:
        """Forget traces. Returns the requests that nobody needs any more."""
        free = []
        for trace_id in trace_ids:
            for place in self._traces.pop(trace_id).places:
                self._needed[place] -= 1
                if not self._needed[place]:
                    del self._needed[place]
                    free.append(place)
        return free
