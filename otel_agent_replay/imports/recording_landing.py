"""Runs that files hold -> a lake, each once: one that is there already, from whatever copy, is left as it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from otel_agent_replay.imports.landing import Landed, LandedTrace
from otel_agent_replay.imports.recording import ImportedRun, Recording
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.label_file import write_labels
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.payload.redaction import Redaction

_RUNS_AT_ONCE = 64
_BYTES_AT_ONCE = 256 << 20
"""Bytes of requests and answers that wait together, to be written into one set of files."""


class RecordingLander:
    """Writes runs and their labels, those of many files together; `close` writes what waits.

    with closing(RecordingLander(lake, redaction)) as lander:
        landed = lander.add(found.recordings, path.stat().st_mtime_ns)
    """

    def __init__(self, lake: Path, redaction: Redaction) -> None:
        self._lake, self._redaction = lake, redaction
        self._there: dict[bytes, LandedTrace] | None = None
        self._waiting: list[ImportedRun] = []
        self._held = 0

    def close(self) -> None:
        """Write what waits. Raises OSError when the lake cannot be written."""
        self._write()

    def add(self, recordings: Iterable[Recording], written_ns: int) -> Landed:
        """Take the recordings of a file and return what they are in the lake, written now or there already.

        `written_ns` (Unix) dates those of which the file tells no time.
        """
        landed = Landed()
        for recording in recordings:
            if self._there is None:
                self._there = _imported(self._lake)
            known = self._there.get(recording.trace_id)
            if known is None:
                built = recording.build(written_ns, self._redaction)
                run = built.run.run
                known = LandedTrace(run.trace_id, run.run_id, len(built.run.spans), [run.root_span_id])
                self._there[recording.trace_id] = known
                self._waiting.append(built)
                self._held += _size(built)
            landed.span_count += known.span_count
            landed.traces.append(known)
            if len(self._waiting) == _RUNS_AT_ONCE or self._held > _BYTES_AT_ONCE:
                self._write()
        return landed

    def _write(self) -> None:
        waiting, self._waiting, self._held = self._waiting, [], 0
        if not waiting:
            return
        write_runs(self._lake, [one.run for one in waiting], segments=())
        labels = [label for one in waiting for label in one.labels]
        if labels:
            write_labels(self._lake, labels)


def _size(built: ImportedRun) -> int:
    calls = [node.call.request.size for node in built.run.nodes if node.call is not None]
    results = [node.outcome.result for node in built.run.nodes if node.outcome is not None]
    return sum(calls) + sum(result.size for result in results if result is not None)


def _imported(lake: Path) -> dict[bytes, LandedTrace]:
    """Return the imported runs of a lake by their traces."""
    return {
        one.run.trace_id: LandedTrace(one.run.trace_id, one.run.run_id, one.span_count, [one.run.root_span_id])
        for one in Lake(lake).runs()
        if one.run.mode == "import"
    }
