"""Starting a process that resumes or forks a run, and reading its report."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from otel_agent_replay.errors import RecordingError
from otel_agent_replay.model import Run
from otel_agent_replay.replay.child import ENTRY_MODULE
from otel_agent_replay.replay.continued_report import ContinuedReport
from otel_agent_replay.replay.launch import _environment as child_environment
from otel_agent_replay.replay.launch import _refuse_deaf as refuse_deaf
from otel_agent_replay.replay.launch import _wait as wait_for
from otel_agent_replay.replay.launch import is_process_run

FILE_LEDGER = "file"


def entry_command(entry: str) -> list[str]:
    """Return the command that calls the agent `pkg.mod:func` with the recorded input."""
    return [sys.executable, "-m", ENTRY_MODULE, entry]


def continue_command(
    recorded: Run,
    argv: Sequence[str],
    *,
    lake: Path,
    mode: str,
    options: Mapping[str, str],
    timeout_s: float | None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> ContinuedReport:
    """Go on with a recorded run by starting `argv`; return how it went.

    `mode` is resume or fork; `options` are further AGENT_REPLAY_* options of the process, empty ones left out.
    `environment` and `directory` are the process's (default: ours). After `timeout_s` it is killed. Raises
    ConfigurationError for a command that cannot be set up.
    """
    refuse_deaf(argv)
    with tempfile.TemporaryDirectory(prefix="agent-replay-") as folder:
        path = Path(folder) / "report.json"
        child = child_environment(recorded, os.environ if environment is None else environment)
        child.update({f"AGENT_REPLAY_{name}": value for name, value in options.items() if value})
        child.update(
            AGENT_REPLAY_MODE=mode,
            AGENT_REPLAY_RUN=recorded.run_id.hex(),
            AGENT_REPLAY_LAKE=str(Path(lake).resolve()),
            AGENT_REPLAY_REPORT=str(path),
            AGENT_REPLAY_SEAL="off",
            AGENT_REPLAY_PROCESS_RUN=str(_is_of_process(recorded, argv)).lower(),
        )
        if mode == "resume":
            child.setdefault("AGENT_REPLAY_LEDGER", FILE_LEDGER)
        status = wait_for(argv, child, directory, timeout_s)
        return _report(recorded, mode, path, status, timeout_s)


def _is_of_process(run: Run, argv: Sequence[str]) -> bool:
    return ENTRY_MODULE not in argv and is_process_run(run)


def _report(run: Run, mode: str, path: Path, status: int | None, timeout_s: float | None) -> ContinuedReport:
    run_id = run.run_id.hex()
    if path.exists():
        try:
            found = ContinuedReport.from_json(path.read_text(encoding="utf-8", errors="surrogatepass"))
        except (OSError, RecordingError) as error:
            return ContinuedReport.never_began(run_id, run.agent, mode, f"the report cannot be read: {error}")
        return replace(found, child_exit=status)
    if status is None:
        reason = f"it did not end within {timeout_s} s and was killed"
    elif status < 0:
        reason = f"the process was killed by signal {-status} before it could report: resume the run again"
    else:
        reason = f"the process ended with status {status} and no report: was it a Python that could be set up?"
    return replace(ContinuedReport.never_began(run_id, run.agent, mode, reason), child_exit=status)
