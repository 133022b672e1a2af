"""What a replaying process does at its start and at its end: tapes, walls, and the verdict in a file."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from otel_agent_replay.boundary.environment import PLACEHOLDER
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.lake.whole_run import in_order_of_begin
from otel_agent_replay.model import CLIENT_STRAND, Kind, Payload, RecordedRun
from otel_agent_replay.replay.inner_runs import is_inside
from otel_agent_replay.replay.limits import Limits, LimitWatch
from otel_agent_replay.replay.runs import Closer, Opener, ReplayRuns
from otel_agent_replay.replay.shuffled import shuffle_scheduling
from otel_agent_replay.replay.silent_exporters import silence
from otel_agent_replay.replay.stopped import say_shortly
from otel_agent_replay.replay.verdict import ReplayVerdict, losses_told
from otel_agent_replay.replay.walls import Walls, WallSettings

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake

ENTRY_MODULE = "otel_agent_replay.replay.entry"
_MOST_SIBLINGS = 500
_VARIABLE = "os.environ["


class ReplaySettings(WallSettings, Protocol):
    """The options that a replaying child reads; `settings.Settings` has them."""

    @property
    def run(self) -> str:
        """The run to replay: an id or a unique prefix."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What it may use: `cpu=60`, `memory=2048`, `files=256`."""

    @property
    def volatile(self) -> tuple[str, ...]:
        """JSON paths that are not compared."""

    @property
    def shuffle(self) -> int:
        """The seed that disturbs the order of threads; 0: none."""


class Recording(Protocol):
    """Who records the replay as a run of its own; `capture.runs.RecordingRuns` is one."""

    @property
    def open(self) -> Opener:
        """What opens a session."""

    @property
    def close(self) -> Closer:
        """What closes it."""

    def input_of(self, request: RunRequest) -> Payload | None:
        """Return a run's input as it is recorded."""


def activate(settings: ReplaySettings, recording: Recording) -> ReplayRuns:
    """Make this process a replay of `settings.run`: load the tapes, put up the walls, return the run factory.

    The verdict is written to `settings.report` whenever the wanted run ends, and again at exit. Raises
    RecordingError, CannotJudge or ConfigurationError; the caller must then end the process.
    """
    walls = Walls(settings)
    walls.put_up_first()
    recordings, target = _recordings(settings)
    restore_client_environment(target)
    silence()
    if settings.shuffle:
        shuffle_scheduling(settings.shuffle)
    watch = LimitWatch(Limits.parse(settings.limits))
    watch.install()
    reporter = _Reporter(settings.report, walls, watch)
    runs = ReplayRuns(
        recordings,
        target=target.run.run_id,
        opener=recording.open,
        closer=_noting(recording.close, watch),
        input_of=recording.input_of,
        volatile=settings.volatile,
        starting=walls.forbid_exec,
        judged=reporter.write,
    )
    reporter.runs = runs
    walls.put_up(runs.refused)
    say_shortly()
    for line in losses_told(target.losses):
        sys.stderr.write(f"agent-replay: this recording is lossy: {line}\n")
    atexit.register(reporter.write)
    return runs


def _noting(close: Closer, watch: LimitWatch) -> Closer:
    """Return the closer that also looks whether a limit ended the run."""

    def closed(session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        watch.note(error)
        close(session, output=output, error=error)

    return closed


def _recordings(settings: ReplaySettings) -> tuple[list[RecordedRun], RecordedRun]:
    from otel_agent_replay.lake.catalog import Lake

    lake = Lake(settings.lake)
    run_id = lake.find(settings.run)
    target = lake.load(run_id)
    if ENTRY_MODULE in sys.orig_argv:
        return _with_inner(lake, target), target
    siblings: Sequence[bytes] = lake.siblings(run_id)
    if len(siblings) > _MOST_SIBLINGS:
        raise CannotJudge(
            f"run {run_id.hex()} was recorded by a process that made {len(siblings)} runs: it cannot be replayed by "
            "its command. Replay the run alone with --entry pkg.mod:func"
        )
    return [target if one == run_id else lake.load(one) for one in siblings], target


def _with_inner(lake: Lake, target: RecordedRun) -> list[RecordedRun]:
    """Return a run, then those that agents called by its own code made, in order."""
    run = target.run
    last_ms = run.ended_ns // 1_000_000 if run.ended_ns else None
    found: set[bytes] = set()
    for trace in {run.trace_id, *(attempt.trace_id for attempt in target.attempts)} - {b""}:
        found |= lake.between("trace_id", trace, trace, first_ms=run.started_ns // 1_000_000, last_ms=last_ms)
    others = [lake.load(one) for one in found - {run.run_id}]
    return [target, *in_order_of_begin(one for one in others if is_inside(one, target))]


def restore_client_environment(target: RecordedRun, *, keeps: bool = False) -> None:
    """Give the model clients what they read when the run was recorded; a secret's place is held by a word.

    With `keeps` what is set already stays: a run that asks live models goes by today's gateway and key.
    """
    for name, value in _client_environment(target):
        if value is None or (keeps and os.environ.get(name, PLACEHOLDER) != PLACEHOLDER):
            os.environ.setdefault(name, PLACEHOLDER)
        else:
            os.environ[name] = value


def _client_environment(recorded: RecordedRun) -> Iterator[tuple[str, str | None]]:
    """Yield the model clients' variables as they were when a run began; None for a masked one."""
    root = recorded.root
    for read in () if root is None or root.node is None else root.node.reads:
        if read.strand == CLIENT_STRAND and read.kind is Kind.ENV and read.name.startswith(_VARIABLE):
            yield read.name[len(_VARIABLE) : -1], None if read.masked else str(read.value)


def variable(name: str) -> str:
    """Return a variable of this process's own environment, "" where it has none."""
    return os.environ.get(name, "")


class _Reporter:
    """Writes the verdict. A forked child writes nothing, and a started one no more than "no run began"."""

    def __init__(self, path: Path | None, walls: Walls, watch: LimitWatch) -> None:
        self._path = path
        self._walls = walls
        self._watch = watch
        self._process = os.getpid()
        self.runs: ReplayRuns | None = None

    def write(self, _latest: ReplayVerdict | None = None) -> None:
        if self._path is None or self.runs is None or os.getpid() != self._process:
            return
        if self.runs.idle and (self._path.exists() or not self._path.parent.exists()):
            return  # a helper process of the one that replays: what that one said stands
        try:
            self._watch.told_in(self._walls.told_in(self.runs.verdict())).write(self._path)
        except OSError as error:
            sys.stderr.write(f"agent-replay: the verdict could not be written to {self._path}: {error}\n")
