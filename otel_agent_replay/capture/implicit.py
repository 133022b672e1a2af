"""Runs that nobody declared: in a service with tracing but no decorated agent, and in a recorded script.

With tracing, the run is the trace's part in this process, from its first model call to the end of the local
root span. With `process_run` (what `agent-replay record` sets) whatever crosses outside any agent belongs to
one run of the whole process.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from pathlib import Path

from opentelemetry import trace

from otel_agent_replay.boundary.crossing import Place, aside
from otel_agent_replay.boundary.runs import RunFactory, RunRequest
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.capture import process_end

_MOST_OPEN = 256
_get_current_span = trace.get_current_span


class ImplicitRuns:
    """Finds or opens the run of code that is in none."""

    def __init__(self, runs: RunFactory, *, process_run: bool) -> None:
        self._runs = runs
        self._process_run = process_run
        self._lock = threading.Lock()
        self._by_trace: OrderedDict[int, Session] = OrderedDict()
        self._of_process: Session | None = None

    def start(self) -> None:
        """Open the run of the process, when it has one: what its modules read while they load belongs to it."""
        if self._process_run:
            process_end.watch()
            self._open_process_run()

    def current(self, opens: bool) -> tuple[Session, Place] | None:
        """Return the run that the running code belongs to; with `opens`, open it when it has not begun."""
        if aside.get():
            return None
        if self._process_run:
            session = self._of_process
            if session is not None and session.forked and opens:
                session = self._open_process_run(afresh=True)
            return None if session is None or session.closed else (session, session.root)
        context = _get_current_span().get_span_context()
        if not context.is_valid:
            return None
        session = self._by_trace.get(context.trace_id)
        if session is None and opens:
            session = self._open_trace_run(context.trace_id)
        return None if session is None or session.closed else (session, session.root)

    def may_open(self) -> bool:
        """Whether a run may be opened for the running code: with tracing, one of the trace that it is in."""
        return self._process_run or _get_current_span().get_span_context().is_valid

    def root_ended(self, trace_id: int) -> None:
        """The local root span of a trace ended: so does its run."""
        with self._lock:
            session = self._by_trace.pop(trace_id, None)
        if session is not None:
            self._runs.close(session, output=None, error=None)

    def close_all(self) -> None:
        """End every run that is still open: the process is about to end."""
        with self._lock:
            sessions = [*self._by_trace.values()]
            self._by_trace.clear()
            of_process, self._of_process = self._of_process, None
        for session in sessions:
            self._runs.close(session, output=None, error=None)
        if of_process is not None:
            self._runs.close(of_process, output=None, error=process_end.failure())
            process_end.unwatch()

    def _open_process_run(self, *, afresh: bool = False) -> Session | None:
        with self._lock:
            if self._of_process is None or (afresh and self._of_process.forked):
                script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
                self._of_process = self._runs.open(RunRequest(agent=script, entry=" ".join(sys.argv)))
            return self._of_process

    def _open_trace_run(self, trace_id: int) -> Session | None:
        evicted = None
        with self._lock:
            session = self._by_trace.get(trace_id)
            if session is None:
                root = getattr(_get_current_span(), "name", "") or "trace"
                session = self._runs.open(RunRequest(agent=root))
                if session is not None:
                    self._by_trace[trace_id] = session
                    if len(self._by_trace) > _MOST_OPEN:  # traces whose root we never see end (unsampled ones)
                        _, evicted = self._by_trace.popitem(last=False)
        if evicted is not None:
            self._runs.close(evicted, output=None, error=None)
        return session
