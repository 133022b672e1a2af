"""Sealing: closed journal segments -> files of the lake, never in the host's process.

Attempts at runs are published first, each by itself, then what lies beside them, and only then is a segment removed.
Each step is noted before it is done (`seal_state`), so a sealer that dies at any point is followed by one that doubles
and loses nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from otel_agent_replay.errors import RunNotFound
from otel_agent_replay.export.assemble import recorded_run
from otel_agent_replay.export.destination import Destination, LakeDestination
from otel_agent_replay.export.left_out_states import without_left_out_states
from otel_agent_replay.export.leftovers import leftovers
from otel_agent_replay.export.record_index import RecordIndex, RunIndex, RunKey, Torn
from otel_agent_replay.export.seal_state import REMOVE, REST, RUNS, SealState, Step
from otel_agent_replay.export.segment_file import SEAL_LOCK, SUFFIX, journal_folder
from otel_agent_replay.export.segments import Segment, SegmentData, list_segments
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.maintenance import try_lock
from otel_agent_replay.model import RecordedRun

_log = logging.getLogger("otel_agent_replay")

BATCH_RECORDS = 1 << 16
"""Records of the runs that are published together: their spans are in memory at once, their bodies are not."""

_REST_BYTES = 64 << 20
_STALE_S = 60.0


@dataclass(slots=True)
class SealReport:
    """What a sealing did. `failed` are runs that could not be published, with why; their segments are left in place.

    `busy` tells that another sealer was at work all the time; `unreadable` are segments of a newer format.
    """

    runs: int = 0
    spans: int = 0
    losses: int = 0
    segments_removed: int = 0
    open_segments: int = 0
    torn: list[Torn] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    busy: bool = False


def seal(
    lake: Path, *, only_closed: bool = True, wait_s: float = 30.0, destination: Destination | None = None
) -> SealReport:
    """Seal a lake's journal. Returns what was done; a lake without a journal is sealed already.

    `destination` is where runs go (None: into this lake's files).

    Waits up to `wait_s` seconds for another sealer. With `only_closed` False, runs that have ended are published out of
    segments that are still written, too. Raises OSError when the lake cannot be written, DamagedRecording.
    """
    lake = Path(lake)
    if not journal_folder(lake).is_dir():
        return SealReport()
    with seal_lock(lake, wait_s) as held:
        if not held:
            return SealReport(busy=True)
        return _Sealing(lake, destination or LakeDestination(lake)).seal(only_closed=only_closed)


def spawn_sealer(lake: Path, module: str = "sealer", environment: Mapping[str, str] | None = None) -> None:
    """Start a sealer that outlives this process and is no child of it. Raises OSError when none can be started.

    It inherits no descriptor, records nothing, and is told nothing of the tracing of this process but for
    `environment`. `module` of this package does the work.
    """
    lake = Path(lake).absolute()
    # The shell ends at once and is waited for: no zombie, no child that the host's own wait() could come upon.
    command = 'nice -n 10 "$@" >/dev/null 2>&1 </dev/null &'
    sealer = [_python(), "-m", f"otel_agent_replay.export.{module}", str(lake)]
    ended = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *sealer],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**_environment(), **(environment or {})},
        cwd=lake,  # `-m` looks there first: not where the host's own modules lie
        check=False,
    )
    if ended.returncode:
        raise OSError(f"the shell that starts it ended with {ended.returncode}")


def _python() -> str:
    """Return the interpreter; in a server that embeds one, `sys.executable` is the server."""
    if "python" in Path(sys.executable).name or "pypy" in Path(sys.executable).name:
        return sys.executable
    found = Path(sys.exec_prefix) / "bin" / "python3"
    if not found.is_file():
        raise FileNotFoundError(f"no Python interpreter at {found}; this process runs {sys.executable!r}")
    return str(found)


def _environment() -> dict[str, str]:
    """Return the environment of a process that neither records nor traces itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_REPLAY_")}
    environment |= {"AGENT_REPLAY_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}
    folders = [Path(part) for part in environment.pop("PYTHONPATH", "").split(os.pathsep) if part]
    # Without the folders by which tracers (and we) get into every Python process.
    kept = [str(folder.absolute()) for folder in folders if not (folder / "sitecustomize.py").exists()]
    return {**environment, "PYTHONPATH": os.pathsep.join(kept)} if kept else environment


@contextmanager
def seal_lock(lake: Path, wait_s: float) -> Iterator[bool]:
    """Keep every sealer out of a lake that has a journal; False when one did not end within `wait_s` seconds."""
    fd = os.open(journal_folder(lake) / SEAL_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield _locked(fd, time.monotonic() + wait_s)
    finally:
        os.close(fd)


def _locked(fd: int, deadline: float) -> bool:
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


class _Sealing:
    """One sealing, under the seal lock."""

    def __init__(self, lake: Path, destination: Destination) -> None:
        self._lake = lake
        self._destination = destination
        self._state = SealState.load(lake)
        self._report = SealReport()
        self._origins: dict[bytes, RecordedRun | None] = {}

    def seal(self, *, only_closed: bool) -> SealReport:
        self._finish_what_was_begun()
        _remove_stale(journal_folder(self._lake))
        segments = list_segments(self._lake)
        alive = {segment.writer for segment in segments if not segment.closed}
        self._report.open_segments = sum(not segment.closed for segment in segments)
        with _loaded([segment for segment in segments if segment.closed or not only_closed]) as loaded:
            readable = [data for data in loaded if data.readable]
            self._report.unreadable = [data.segment.id for data in loaded if not data.readable]
            index = RecordIndex(readable)
            self._report.torn = list(index.torn.values())
            self._publish_runs(index, alive)
            unread = [segment for segment in segments if not segment.closed] if only_closed else []
            for group in _groups(self._removable(index, unread)):
                self._do(Step(REST, tuple(segment.id for segment in group)), index)
        return self._report

    # --- steps ---

    def _finish_what_was_begun(self) -> None:
        step = self._state.step
        if step is None:
            return
        from otel_agent_replay.lake.layout import remove_unfinished

        remove_unfinished(self._lake)
        chosen = [segment for segment in list_segments(self._lake) if segment.id in step.segments]
        with _loaded(chosen) as loaded:
            try:
                self._do(step, RecordIndex(loaded))
            except OSError:
                raise
            except Exception as error:
                # Whatever it is, it must not keep all the rest out: the ordinary way meets it again and reports it.
                _log.warning("a step of an earlier sealer could not be finished: %s: %s", type(error).__name__, error)
                self._state.save(None)

    def _do(self, step: Step, index: RecordIndex) -> None:
        """Do a step, noted beforehand, and what follows from it."""
        if self._state.step != step:
            self._state.save(step)
        if step.what == REMOVE:
            self._remove(step)
        elif step.what == RUNS:
            self._publish(step, index)
        else:
            self._publish_rest(step, index)
            damaged = {torn.segment for torn in index.torn.values() if not torn.cut}
            self._do(Step(REMOVE, step.segments, damaged=tuple(sorted(damaged.intersection(step.segments)))), index)

    def _publish(self, step: Step, index: RecordIndex) -> None:
        keys = [(RunKey.from_text(text), number) for text, number in step.runs]
        made = [(key, self._assembled(index, key, number)) for key, number in keys]
        runs = {key: recorded for key, recorded in made if recorded is not None}
        if runs:
            self._destination.publish(list(runs.values()), step.segments, ())
        for key, recorded in runs.items():
            self._count(recorded)
            self._note(index, key)
        self._state.save(None)

    def _assembled(self, index: RecordIndex, key: RunKey, number: int) -> RecordedRun | None:
        try:
            return without_left_out_states(recorded_run(index, key, self._origin, attempt=number))
        except Exception as error:
            self._report.failed.append((key.run_id.hex(), f"{type(error).__name__}: {error}"))
            return None

    def _origin(self, run_id: bytes) -> RecordedRun | None:
        """Return a run that another one repeats or was forked from: it may lie in the journal, too."""
        if run_id not in self._origins:
            self._origins.clear()  # the replays of one run follow each other
            self._origins[run_id] = None
            with contextlib.suppress(RunNotFound):
                self._origins[run_id] = load_run(self._lake, run_id.hex())
        return self._origins[run_id]

    def _publish_rest(self, step: Step, index: RecordIndex) -> None:
        numbers = {number for number, data in enumerate(index.segments) if data.segment.id in step.segments}
        rest = leftovers(index, self._state.published, numbers)
        if rest.traces or rest.losses:
            self._destination.publish(rest.traces, step.segments, rest.losses)
        self._report.spans += sum(len(trace.spans) for trace in rest.traces)
        self._report.losses += len(rest.losses)

    def _remove(self, step: Step) -> None:
        folder = journal_folder(self._lake)
        for segment in step.segments:
            path = folder / (segment + SUFFIX)
            if not path.exists():
                continue
            if segment in step.damaged:
                path.rename(path.with_suffix(".damaged"))  # more than a cut tail: kept for whoever looks into it
            else:
                path.unlink()
            self._report.segments_removed += 1
        self._state.forget(step.segments)
        self._state.save(None)

    # --- what to do ---

    def _publish_runs(self, index: RecordIndex, alive: set[str]) -> None:
        attempts = self._destination.attempts()
        batch: dict[RunKey, int] = {}
        given: dict[bytes, set[int]] = {}
        records = 0
        for key, run in index.runs.items():
            if not _is_complete(run, index, alive) or self._is_published(key):
                continue
            numbers = attempts(key.run_id)
            if key.span_id in numbers:
                self._note(index, key)
                continue
            # Two processes that went on with a run without a ledger gave themselves the same number.
            taken = given.setdefault(key.run_id, set()) | set(numbers.values())
            batch[key] = max(taken) + 1 if run.attempt in taken else run.attempt
            given[key.run_id].add(batch[key])
            records += len(run.places)
            if records >= BATCH_RECORDS:
                self._publish_batch(batch, index)
                batch, records = {}, 0
        if batch:
            self._publish_batch(batch, index)

    def _publish_batch(self, batch: Mapping[RunKey, int], index: RecordIndex) -> None:
        numbers = sorted({number for key in batch for number in index.runs[key].segments})
        segments = tuple(index.segments[number].segment.id for number in numbers)
        try:
            self._do(Step(RUNS, segments, tuple((key.text, number) for key, number in batch.items())), index)
        except OSError:
            raise
        except Exception as error:
            self._state.save(None)
            if len(batch) == 1:
                (key,) = batch
                self._report.failed.append((key.run_id.hex(), f"{type(error).__name__}: {error}"))
                return
            for key, number in batch.items():  # one bad run must not keep the others out
                self._publish_batch({key: number}, index)

    def _removable(self, index: RecordIndex, unread: Sequence[Segment]) -> list[Segment]:
        """Return the closed segments all of whose runs are published; `unread` are segments that are still written."""
        strays = [key.run_id for key, run in index.runs.items() if run.home is None]
        begun_elsewhere = _runs_begun_in(unread) if strays else set()
        kept: set[int] = set()
        for key, run in index.runs.items():
            # Records of an attempt that began in no segment are late; but a forked child's wait for its parent's run.
            if key.run_id in begun_elsewhere if run.home is None else not self._is_published(key):
                kept |= run.segments
        return [
            data.segment for number, data in enumerate(index.segments) if data.segment.closed and number not in kept
        ]

    def _is_published(self, key: RunKey) -> bool:
        return key.text in self._state.published

    def _note(self, index: RecordIndex, key: RunKey) -> None:
        counts: dict[str, int] = {}
        for number, _, _ in index.runs[key].places:
            segment = index.segments[number].segment.id
            counts[segment] = counts.get(segment, 0) + 1
        self._state.published[key.text] = counts

    def _count(self, recorded: RecordedRun) -> None:
        self._report.runs += 1
        self._report.spans += len(recorded.spans)
        self._report.losses += len(recorded.losses)


def _is_complete(run: RunIndex, index: RecordIndex, alive: set[str]) -> bool:
    return run.home is not None and (run.ended or index.segments[run.home].segment.writer not in alive)


def _groups(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    size = 0
    for segment in segments:
        group.append(segment)
        size += segment.path.stat().st_size
        if size >= _REST_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _runs_begun_in(segments: Sequence[Segment]) -> set[bytes]:
    with _loaded(segments) as loaded:
        runs = RecordIndex([data for data in loaded if data.readable]).runs
        return {key.run_id for key, run in runs.items() if run.home is not None}


@contextmanager
def _loaded(segments: Sequence[Segment]) -> Iterator[list[SegmentData]]:
    loaded = []
    try:
        for segment in segments:
            with contextlib.suppress(FileNotFoundError):  # removed by hand meanwhile
                loaded.append(SegmentData(segment))
        yield loaded
    finally:
        for data in loaded:
            data.close()


def _remove_stale(folder: Path) -> None:
    """Remove segments that a process began to make and died: they have no name yet and at most a header."""
    for path in folder.glob(".*.new"):
        with contextlib.suppress(FileNotFoundError):  # its writer gave it its name this moment
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()


def main() -> int:
    """Seal the lake named on the command line."""
    report = seal(Path(sys.argv[1]))
    sys.stdout.write(f"sealed {report.runs} runs, {report.spans} spans; {report.segments_removed} segments removed\n")
    return 0 if not report.failed else 1


if __name__ == "__main__":
    sys.exit(main())
