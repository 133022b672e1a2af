"""What a process does at its start that resumes or forks a run: recordings, plan, walls, and the report in a file."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from otel_agent_replay.errors import AgentReplayError, CannotJudge
from otel_agent_replay.lake.whole_run import in_order_of_begin
from otel_agent_replay.model import CaptureLevel, RecordedRun
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.child import ENTRY_MODULE, restore_client_environment
from otel_agent_replay.replay.continued_report import ContinuedReport
from otel_agent_replay.replay.continued_runs import ContinuedRuns, ForkRoute, Recording
from otel_agent_replay.replay.fitness import must_be_resumable
from otel_agent_replay.replay.silent_exporters import silence
from otel_agent_replay.replay.stopped import say_shortly
from otel_agent_replay.replay.walls import Walls, WallSettings


class GoingOnSettings(WallSettings, Protocol):
    """The options that such a process reads; `settings.Settings` has them."""

    @property
    def mode(self) -> str:
        """Resume or fork."""

    @property
    def run(self) -> str:
        """The run to go on from: an id or a unique prefix."""

    @property
    def plan(self) -> Path | None:
        """The plan of a fork."""

    @property
    def changed(self) -> bool:
        """Whether other code or configuration than recorded is accepted."""


def go_on(
    settings: GoingOnSettings,
    recording: Recording,
    redaction: Callable[[CaptureLevel], Redaction],
    *,
    load_process: Callable[[Path, str], list[RecordedRun]],
    load_alone: Callable[[Path, str], list[RecordedRun]],
    reload: Callable[[bytes], RecordedRun],
) -> ContinuedRuns:
    """Make this process go on with `settings.run`, or with a fork of it; return the run factory.

    `load_process(lake, run)` gives the recorded runs of the run's process, itself first, `load_alone` those of agents
    that its own code called: for where it is called by its entry; `reload(run_id)` gives one run again. The report is
    written to `settings.report` whenever the wanted run ends, and again at exit. Raises RecordingError, CannotJudge or
    ConfigurationError; the caller must then end the process.
    """
    walls = None
    if settings.mode == "fork":
        walls = Walls(settings)
        walls.put_up_first()
    alone = ENTRY_MODULE in sys.orig_argv
    recordings = (load_alone if alone else load_process)(settings.lake, settings.run)
    target = recordings[0]
    if settings.mode == "resume":
        must_be_resumable(target)
    recordings = in_order_of_begin(recordings)
    if walls is not None:
        restore_client_environment(target)
        silence()
    reporter = _Reporter(settings.report, walls)
    runs = ContinuedRuns(
        recordings,
        target=target.run.run_id,
        recording=recording,
        redaction=redaction,
        reload=reload,
        changed=settings.changed,
        plan=_prepared(settings, target),
        starting=None if walls is None else walls.forbid_exec,
        reported=reporter.write,
    )
    reporter.runs = runs
    if walls is not None:
        walls.put_up(runs.refused)
    say_shortly()
    atexit.register(reporter.write)
    return runs


def _prepared(settings: GoingOnSettings, target: RecordedRun) -> ForkRoute | None:
    if settings.mode != "fork":
        return None
    from otel_agent_replay.replay.fork import ForkPlan, PreparedFork

    if settings.plan is None:
        raise CannotJudge("a fork needs a plan: start it with `agent-replay fork`")
    return PreparedFork(target, ForkPlan.read(settings.plan))


class _Reporter:
    """Writes the report. A forked child writes nothing."""

    def __init__(self, path: Path | None, walls: Walls | None) -> None:
        self._path = path
        self._walls = walls
        self._process = os.getpid()
        self.runs: ContinuedRuns | None = None

    def write(self, _latest: ContinuedReport | None = None) -> None:
        if self._path is None or self.runs is None or os.getpid() != self._process:
            return
        try:
            report = self.runs.report()
            if self._walls is not None:
                report = replace(report, fences=self._walls.standing(), refusals=self._walls.refusals())
            report.write(self._path)
        except OSError as error:
            sys.stderr.write(f"agent-replay: the report could not be written to {self._path}: {error}\n")


def refusal(settings: GoingOnSettings, error: AgentReplayError) -> None:
    """Write the report on a run that could not go on because of `error`."""
    if settings.report is not None:
        report = ContinuedReport.refused(settings.run, "", settings.mode, error)
        with_run = replace(report, origin_run_id=settings.run)
        with_run.write(settings.report)
