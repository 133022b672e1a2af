"""What the receiver counts, and how it says so: Prometheus text."""

from __future__ import annotations

import threading
from collections.abc import Mapping

_HELP: Mapping[str, str] = {
    "requests": "Requests that came, by protocol and what they carry.",
    "received_items": "Spans and log records that came in decodable requests.",
    "received_bytes": "Bytes of request bodies that came.",
    "acknowledged_items": "Spans and log records that are on disk and were acknowledged.",
    "acknowledged_requests": "Requests that are on disk and were acknowledged.",
    "refused_requests": "Requests that were refused, by reason.",
    "rejected_items": "Spans and log records left out of requests that were taken.",
    "masked_requests": "Requests in which something was masked.",
}


class Tally:
    """Counters, by name and labels. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, name: str, count: int = 1, labels: str = "") -> None:
        """Count. `labels` are written as Prometheus has them (`reason="busy"`)."""
        key = (name, labels)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + count

    def get(self, name: str, labels: str = "") -> int:
        """Return one count."""
        return self._counts.get((name, labels), 0)

    def text(self, gauges: Mapping[str, tuple[float, str]]) -> str:
        """Return all counters and `gauges` (value and meaning, by name)."""
        with self._lock:
            counts = dict(self._counts)
        lines: list[str] = []
        for name, meaning in _HELP.items():
            full = f"agent_replay_collector_{name}_total"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} counter"]
            found = sorted((labels, count) for (key, labels), count in counts.items() if key == name)
            lines += [f"{full}{{{labels}}} {count}" if labels else f"{full} {count}" for labels, count in found]
            if not found:
                lines.append(f"{full} 0")
        for name, (value, meaning) in gauges.items():
            full = f"agent_replay_collector_{name}"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} gauge", f"{full} {value:.10g}"]
        return "\n".join(lines) + "\n"
