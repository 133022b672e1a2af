"""What a process does at its start that re-runs a run: recordings, plan, walls, and the report in a file."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from otel_agent_replay.errors import AgentReplayError, CannotJudge, ConfigurationError
from otel_agent_replay.lake.whole_run import in_order_of_begin
from otel_agent_replay.model import CaptureLevel, RecordedRun
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.child import ENTRY_MODULE, restore_client_environment, variable
from otel_agent_replay.replay.rerun.license import License
from otel_agent_replay.replay.rerun.plan import RerunPlan
from otel_agent_replay.replay.rerun.report import RerunReport
from otel_agent_replay.replay.rerun.route import World
from otel_agent_replay.replay.rerun.runs import Recording, RerunRuns
from otel_agent_replay.replay.silent_exporters import silence
from otel_agent_replay.replay.stopped import say_shortly
from otel_agent_replay.replay.walls import Walls, WallSettings

_PR_SET_PDEATHSIG = 1  # of Linux


class RerunSettings(WallSettings, Protocol):
    """The options that such a process reads; `settings.Settings` has them."""

    @property
    def run(self) -> str:
        """The run to run again: an id or a unique prefix."""

    @property
    def origin(self) -> Path | None:
        """The lake that holds it."""

    @property
    def plan(self) -> Path | None:
        """How it is run again."""

    @property
    def identity(self) -> tuple[str, ...]:
        """Variables that are the re-run's own."""

    @property
    def max_steps(self) -> int:
        """Steps after which it is aborted; 0: no limit."""


def activate(
    settings: RerunSettings,
    recording: Recording,
    redaction: Callable[[CaptureLevel], Redaction],
    *,
    load_process: Callable[[Path, str], list[RecordedRun]],
    load_alone: Callable[[Path, str], list[RecordedRun]],
) -> RerunRuns:
    """Make this process a re-run of `settings.run`; return the run factory.

    `load_process(lake, run)` gives the recorded runs of the run's process, itself first, `load_alone` those of agents
    that its own code called: for where it is called by its entry. The report is written to `settings.report` when the
    wanted run begins and ends, and again at exit. Raises RecordingError, CannotJudge or ConfigurationError; the caller
    must then end the process.
    """
    if settings.plan is None or settings.origin is None:
        raise CannotJudge("a re-run needs a plan and the lake of its origin: start it with `agent-replay rerun`")
    origin, plan = settings.origin, RerunPlan.read(settings.plan)
    _end_with_parent()
    license_ = License()
    walls = Walls(settings, licensed=license_)
    walls.put_up_first()
    alone = ENTRY_MODULE in sys.orig_argv
    recordings = (load_alone if alone else load_process)(origin, settings.run)
    target = recordings[0]
    restore_client_environment(target, keeps=True)
    silence()
    world = World(
        plan,
        target,
        load_pool=lambda ids: _loaded(origin, ids),
        simulator=partial(_simulated, plan.simulator) if plan.simulator else None,
        key=_key(plan.candidate.key, settings.identity),
        identity=settings.identity,
        now_ns=time.time_ns(),
    )
    reporter = _Reporter(settings.report, walls)
    runs = RerunRuns(
        in_order_of_begin(recordings),
        world,
        recording=recording,
        redaction=redaction,
        max_steps=settings.max_steps,
        starting=partial(_started, walls, license_),
        reported=reporter.write,
    )
    reporter.runs = runs
    walls.put_up(runs.refused)
    say_shortly()
    atexit.register(reporter.write)
    return runs


def _end_with_parent() -> None:
    """Let this process die with the one that started it: whoever is gone can take no result, nor hold a budget."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _started(walls: Walls, license_: License) -> None:
    """A run begins: the process becomes no other program, and what is declared is for declared code only."""
    walls.forbid_exec()
    license_.begun = True


def refusal(settings: RerunSettings, error: AgentReplayError) -> None:
    """Write the report on a re-run that could not begin because of `error`."""
    if settings.report is not None:
        RerunReport.not_begun(settings.run, "", str(error), error.code).write(settings.report)


def _key(name: str, identity: Sequence[str]) -> str:
    if not name:
        return ""
    if name not in identity:
        raise ConfigurationError(f"--candidate key_env={name}: there is no {name} in the --env-file")
    return variable(name)


def _simulated(entry: str, said: Any, turns: Sequence[Any]) -> Any:
    """Ask a simulator, imported when it is first asked: this process is not ready for anybody's code before."""
    from otel_agent_replay.replay.entry import load_entry  # the process's main module, where it is called by its entry

    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return load_entry(entry)(said, turns)


def _loaded(lake: Path, ids: Sequence[str]) -> list[RecordedRun]:
    from otel_agent_replay.lake.catalog import Lake

    stored = Lake(lake)
    return [stored.load(bytes.fromhex(run_id)) for run_id in ids]


class _Reporter:
    """Writes the report. A forked child writes nothing."""

    def __init__(self, path: Path | None, walls: Walls) -> None:
        self._path = path
        self._walls = walls
        self._process = os.getpid()
        self.runs: RerunRuns | None = None

    def write(self) -> None:
        if self._path is None or self.runs is None or os.getpid() != self._process:
            return
        try:
            replace(self.runs.report(), fences=self._walls.standing()).write(self._path)
        except OSError as error:
            sys.stderr.write(f"agent-replay: the report could not be written to {self._path}: {error}\n")
