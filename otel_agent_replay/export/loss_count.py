"""Counts of what could not be written, until they can be written themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from otel_agent_replay.model import LossReason
from otel_agent_replay.wire.frames import frame
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_MOST_KEYS = 512
_time_ns = time.time_ns  # bound at import, before any interception


class LossCount:
    """Lost records by run and kind. `add` is for any thread and takes no lock that a write holds."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counts: dict[tuple[bytes, str], int] = {}
        self.pending = False  # whether there is any: an attribute, because every write asks

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __bool__(self) -> bool:
        return self.pending

    def add(self, records: Sequence[wire.Record | bytes]) -> None:
        """Count `records` as lost."""
        with self._lock:
            for written in records:
                record = wire.Record.FromString(written) if isinstance(written, bytes) else written
                what = record.WhichOneof("record") or "record"
                self._count(getattr(getattr(record, what, None), "run_id", b""), what)

    def add_segment(self) -> None:
        """Count a segment as lost, with all that was written to it."""
        with self._lock:
            self._count(b"", "journal segment")

    def _count(self, run_id: bytes, what: str) -> None:
        key = (run_id, what) if len(self._counts) < _MOST_KEYS else (b"", what)
        self._counts[key] = self._counts.get(key, 0) + 1
        self.pending = True

    def frames(self) -> tuple[bytes, dict[tuple[bytes, str], int]]:
        """Return the counts as framed `Loss` records, and the counts themselves for `written`."""
        with self._lock:
            counts = dict(self._counts)
        now = _time_ns()
        losses = (
            wire.Loss(reason=LossReason.DROPPED.value, what=what, count=count, run_id=run_id, time_ns=now)
            for (run_id, what), count in counts.items()
        )
        return b"".join(frame(wire.Record(loss=loss).SerializeToString()) for loss in losses), counts

    def written(self, counts: dict[tuple[bytes, str], int]) -> None:
        """Forget `counts`: they are on disk."""
        with self._lock:
            for key, count in counts.items():
                left = self._counts[key] - count
                if left:
                    self._counts[key] = left
                else:
                    del self._counts[key]
            self.pending = bool(self._counts)
