"""Which open run a span of ours belongs to: for spans of others that start below it where no run is current.

A thread or task that was given nothing but a trace context knows the span that it goes on from, and no more.
"""

from __future__ import annotations

import os
import threading
import weakref

from otel_agent_replay.capture.recorder import Recorder

_NO_RUN = (b"", "")


class TracedRuns:
    """The open runs of a process that have spans. May be used from several threads, and goes on in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_trace: dict[int, dict[Recorder, tuple[bytes, str]]] = {}
        _all.add(self)

    def add(self, trace_id: int, recorder: Recorder, membership: tuple[bytes, str]) -> None:
        """Note a run: its id and, of a replay, the mode's name."""
        with self._lock:
            self._by_trace.setdefault(trace_id, {})[recorder] = membership

    def discard(self, recorder: Recorder) -> None:
        """Forget a run that has ended."""
        trace_id = int.from_bytes(recorder.trace_id, "big")
        with self._lock:
            runs = self._by_trace.get(trace_id)
            if runs is not None:
                runs.pop(recorder, None)
                if not runs:
                    del self._by_trace[trace_id]

    def run_of(self, trace_id: int, span_id: int) -> tuple[bytes, str]:
        """Return what was noted of the run whose open span this is; empty for none."""
        runs = self._by_trace.get(trace_id)
        if runs is not None:
            wanted = span_id.to_bytes(8, "big")
            for recorder, membership in list(runs.items()):
                if recorder.has_open(wanted):
                    return membership
        return _NO_RUN


_all: weakref.WeakSet[TracedRuns] = weakref.WeakSet()


def _in_forked_child() -> None:
    """Replace the locks: another thread of the parent may have held one."""
    for runs in list(_all):
        runs._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
