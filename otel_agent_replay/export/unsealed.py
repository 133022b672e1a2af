"""A run as it stands now: what the lake holds of it, and what still lies in the journal, also of a process that lives.

Nothing is sealed and no lock is touched, so that a run can be looked at, and gone on with, while its writer writes, is
stopped or was killed, and while a sealer works. The journal is read before the lake: a segment that is gone by then was
published before it went. Loads Arrow only where the lake has files to look into.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.errors import DamagedRecording, RunNotFound, UnsupportedFormat
from otel_agent_replay.export.assemble import recorded_run
from otel_agent_replay.export.record_index import RecordIndex
from otel_agent_replay.export.segments import SegmentData, visible_segments
from otel_agent_replay.lake.layout import SPANS, all_files, id_range
from otel_agent_replay.lake.whole_run import in_order_of_begin, merged_attempts, with_prefix
from otel_agent_replay.model import RecordedRun, RunStatus, run_started_ms
from otel_agent_replay.wire.v1 import journal_pb2 as wire

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake

_RUN_BEGUN = wire.Record.RUN_BEGUN_FIELD_NUMBER << 3 | 2
"""First byte of a serialised record that begins a run."""


def load_run(lake: Path, text: str, *, facts: bool = True) -> RecordedRun:
    """Return the run of an id or unique prefix, with all its attempts; a fork with what it shares with its origin.

    What a live process is writing is read up to the last whole record. Without `facts` what only bodies tell (tokens,
    cost, messages) is left out of what the journal holds. Raises RunNotFound, DamagedRecording,
    UnsupportedFormat.
    """
    standing = _Standing(lake, facts=facts)
    return standing.load(standing.find(text))


def load_process(lake: Path, text: str) -> list[RecordedRun]:
    """Return the run of an id or unique prefix, then the others that its process began, in order. Raises as `load_run`.

    A process that went on with runs of an earlier one repeated that one: what that one, and each that went on with one
    of them, had begun belongs to it. What only bodies tell is left out, as `load_run` can.
    """
    standing = _Standing(lake, facts=False)
    target = standing.load(standing.find(text))
    loaded = {target.run.run_id: target}
    seen: set[str] = set()
    waiting = _processes_of(target)
    while waiting:
        process = waiting.pop()
        if process in seen:
            continue
        seen.add(process)
        for run_id in standing.worked_on_by(process) - loaded.keys():
            found = loaded[run_id] = standing.load(run_id)
            waiting += [] if found.run.replay else _processes_of(found)
    return [target, *in_order_of_begin(one for one in loaded.values() if one is not target and not one.run.replay)]


def _processes_of(recorded: RecordedRun) -> list[str]:
    """Return the processes that worked on a run."""
    return [process for process in {recorded.run.process, *(one.process for one in recorded.attempts)} if process]


def load_with_inner(lake: Path, text: str) -> list[RecordedRun]:
    """Return the run of an id or unique prefix, then the runs that agents called by its own code made, in order.

    What only bodies tell is left out, as `load_run` can. Raises as `load_run`.
    """
    standing = _Standing(lake, facts=False)
    target = standing.load(standing.find(text))
    inner = [standing.load(run_id) for run_id in standing.in_traces_of(target)]
    inner = [one for one in inner if one.run.started_ns >= target.run.started_ns and not one.run.replay]
    return [target, *in_order_of_begin(inner)]


def unsealed_runs(lake: Path) -> set[bytes]:
    """Return the runs that the journal goes on with, and the origins of the forks in it. Raises UnsupportedFormat."""
    return _Standing(lake).named()


def ended_on_record(lake: Path, run_ids: Iterable[bytes]) -> dict[bytes, RunStatus]:
    """Return which of these runs have ended, and how. Of what is not there or cannot be read nothing is said.

    Raises UnsupportedFormat.
    """
    standing = _Standing(lake, facts=False)
    found = {}
    for run_id in run_ids:
        with contextlib.suppress(RunNotFound, DamagedRecording):
            found[run_id] = standing.load(run_id).run.status
    return {run_id: status for run_id, status in found.items() if status is not RunStatus.PENDING}


class _Standing:
    """The journal of a lake as it was a moment ago, and the lake as it is when asked."""

    def __init__(self, lake: Path, *, facts: bool = True) -> None:
        self._facts = facts
        self._lake = Path(lake)
        self._segments: list[SegmentData] = []
        for segment in visible_segments(self._lake):
            with contextlib.suppress(FileNotFoundError):  # sealed meanwhile: it is in the lake
                self._segments.append(SegmentData(segment))
        self._loaded: dict[bytes, RecordedRun | None] = {}

    def find(self, text: str) -> bytes:
        """Return the id of the one run that `text` names. Raises RunNotFound."""
        lowest, highest = id_range(text)
        segments = self._segments
        if lowest == highest:  # looking for 16 bytes is ten times as fast as reading records
            segments = [data for data in segments if lowest in data.data]
        found = {begun.run_id for begun in self._begins(segments) if lowest <= begun.run_id <= highest}
        if not (found and lowest == highest):
            lake = self._catalog(run_started_ms(lowest), run_started_ms(highest))
            found |= set() if lake is None else lake.between("run_id", lowest, highest)
        if not found:
            found = {begun.run_id for begun in self._begins(segments) if lowest <= begun.trace_id <= highest}
            lake = self._catalog()
            found |= set() if lake is None else lake.between("trace_id", lowest, highest)
        if not found:
            _refuse_newer(self._segments)
        if len(found) != 1:
            raise RunNotFound(text, sorted(run_id.hex() for run_id in found))
        return found.pop()

    def worked_on_by(self, process: str) -> set[bytes]:
        """Return the runs that a process began or went on with."""
        segments = [data for data in self._segments if data.segment.writer == process]
        lake = self._catalog()
        in_lake = {} if lake is None else lake.begun_by(process, first_attempts=False)
        return {begun.run_id for begun in self._begins(segments)} | in_lake.keys()

    def in_traces_of(self, run: RecordedRun) -> set[bytes]:
        """Return the other runs that began in the traces of a run's attempts, after it."""
        traces = {run.run.trace_id, *(attempt.trace_id for attempt in run.attempts)} - {b""}
        segments = [data for data in self._segments if any(trace in data.data for trace in traces)]
        _refuse_newer(segments)
        found = {begun.run_id for begun in self._begins(segments) if begun.trace_id in traces}
        started_ms = run_started_ms(run.run.run_id)
        lake = self._catalog(started_ms)
        if lake is not None:
            for trace in traces:
                found |= lake.between("trace_id", trace, trace, first_ms=started_ms)
        return found - {run.run.run_id}

    def named(self) -> set[bytes]:
        """Return the runs that the journal's begins name."""
        _refuse_newer(self._segments)
        found = set()
        for begun in self._begins(self._segments):
            found |= {begun.run_id, begun.origin_run_id} if begun.fork_step else {begun.run_id}
        return found - {b""}

    def load(self, run_id: bytes) -> RecordedRun:
        """Return a run. Raises RunNotFound, DamagedRecording, UnsupportedFormat."""
        found = self._get(run_id)
        if found is None:
            raise RunNotFound(run_id.hex())
        return found

    def _get(self, run_id: bytes) -> RecordedRun | None:
        if run_id not in self._loaded:
            self._loaded[run_id] = None  # a circle of origins ends here: no writer of ours makes one
            self._loaded[run_id] = self._made(run_id)
        return self._loaded[run_id]

    def _made(self, run_id: bytes) -> RecordedRun | None:
        unsealed = self._unsealed(run_id)
        started_ms = run_started_ms(run_id)
        lake = self._catalog(started_ms, started_ms)
        parts: list[RecordedRun] = [] if lake is None else list(lake.stored_attempts(run_id))
        sealed = {part.run.root_span_id for part in parts}
        for part in unsealed:
            if part.run.root_span_id not in sealed:
                parts.append(_numbered_among(part, parts))
        if not parts:
            return None
        merged = merged_attempts(parts)
        return with_prefix(merged, self._get(merged.run.origin_run_id)) if merged.run.is_fork else merged

    def _unsealed(self, run_id: bytes) -> list[RecordedRun]:
        """Return the attempts at a run that lie in the journal, in order."""
        segments = [data for data in self._segments if run_id in data.data]
        _refuse_newer(segments)
        index = RecordIndex(segments)
        begun = [(run, key) for key, run in index.runs.items() if key.run_id == run_id and run.home is not None]
        begun.sort(key=lambda pair: (pair[0].attempt, pair[0].begun_ns))
        return [recorded_run(index, key, self._get, facts=self._facts) for _, key in begun]

    @staticmethod
    def _begins(segments: Sequence[SegmentData]) -> Iterator[wire.RunBegun]:
        for data in segments:
            if data.readable:
                for _, raw in data.frames:
                    if raw[0] == _RUN_BEGUN:
                        yield wire.Record.FromString(raw).run_begun

    def _catalog(self, first_ms: int | None = None, last_ms: int | None = None) -> Lake | None:
        """Return the lake where it has files of that time."""
        if next(all_files(self._lake, SPANS, first_ms=first_ms, last_ms=last_ms), None) is None:
            return None
        from otel_agent_replay.lake.catalog import Lake

        return Lake(self._lake)


def _refuse_newer(segments: Sequence[SegmentData]) -> None:
    for data in segments:
        if not data.readable:
            raise UnsupportedFormat(
                f"segment {data.segment.id} was written by a newer version: upgrade otel-agent-replay to read it"
            )


def _numbered_among(part: RecordedRun, others: Sequence[RecordedRun]) -> RecordedRun:
    """Return an attempt under its number, or the next one that is free, as the sealer will give it."""
    taken = {other.run.attempt for other in others}
    if part.run.attempt not in taken:
        return part
    return replace(part, run=replace(part.run, attempt=max(taken) + 1))
