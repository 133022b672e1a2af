"""Starting a process that resumes or forks a run, and reading its report.

A resumption is production's own work: it keeps its environment and may go anywhere. A fork is a replay, behind walls.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from otel_agent_replay.errors import CannotJudge, RecordingError
from otel_agent_replay.model import Run, why_not_again
from otel_agent_replay.replay.audit import enter
from otel_agent_replay.replay.continued_report import ContinuedReport
from otel_agent_replay.replay.enclosed import Enclosure, child_environment, refuse_deaf, wait_for, why_no_report
from otel_agent_replay.replay.fork import ForkPlan
from otel_agent_replay.replay.launch import starts_process_run
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.report_file import read_whole

FILE_LEDGER = "file"


def resume_command(
    run: Run,
    argv: Sequence[str],
    *,
    lake: Path,
    ledger: str = "",
    changed: bool = False,
    max_steps: int = 0,
    timeout_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> ContinuedReport:
    """Finish a recorded run by starting `argv`; return how it went.

    `ledger` is where effects happen once (default: what the environment says, else a file beside the lake). With
    `changed` other code or configuration than recorded is accepted; `max_steps` (0: none) aborts the run. After
    `timeout_s` the process is killed. Raises ConfigurationError for a command that cannot be set up, CannotJudge for
    a run that is not to be run again.
    """
    if why := why_not_again(run):
        raise CannotJudge(why)
    refuse_deaf(argv)
    with tempfile.TemporaryDirectory(prefix="agent-replay-") as folder:
        report = Path(folder) / "report.json"
        child = child_environment(run, os.environ if environment is None else environment)
        options = {
            "MODE": "resume",
            "RUN": run.run_id.hex(),
            "LAKE": str(Path(lake).resolve()),
            "REPORT": str(report),
            "SEAL": "off",
            "PROCESS_RUN": str(starts_process_run(run, argv)).lower(),
            "LEDGER": ledger or child.get("AGENT_REPLAY_LEDGER") or FILE_LEDGER,
            "CHANGED": "true" if changed else "",
            "MAX_STEPS": str(max_steps or ""),
        }
        child.update({f"AGENT_REPLAY_{name}": value for name, value in options.items() if value})
        enter(lake, "resume", run_id=run.run_id, mode="resume", command=argv)
        status = wait_for(argv, child, directory, timeout_s)
        return _report(run, "resume", report, status, timeout_s)


def fork_command(
    run: Run, argv: Sequence[str], plan: ForkPlan, *, enclosure: Enclosure, max_steps: int = 0
) -> ContinuedReport:
    """Fork a recorded run by starting `argv` behind the walls of `enclosure`; return how it went.

    Raises ConfigurationError for a command that cannot be set up, CannotJudge where the walls cannot stand.
    """
    with tempfile.TemporaryDirectory(prefix="agent-replay-", ignore_cleanup_errors=True) as folder:
        report, path = Path(folder) / "report.json", Path(folder) / "plan.json"
        plan.write(path)
        options = {
            "REPORT": str(report),
            "PLAN": str(path),
            "PROCESS_RUN": str(starts_process_run(run, argv)).lower(),
            "MAX_STEPS": str(max_steps or ""),
        }
        ended = enclosure.run(run, argv, Path(folder), action="fork", mode="fork", options=options)
        return _report(run, "fork", report, ended.status, enclosure.timeout_s, enclosure.limits)


def _report(
    run: Run, mode: str, path: Path, status: int | None, timeout_s: float | None, limits: Limits | None = None
) -> ContinuedReport:
    run_id = run.run_id.hex()
    if path.exists():
        try:
            found = ContinuedReport.from_json(read_whole(path))
        except (OSError, RecordingError) as error:
            return ContinuedReport.never_began(run_id, run.agent, mode, f"the report cannot be read: {error}")
        return replace(found, child_exit=status)
    reason = why_no_report(status, timeout_s, limits)
    if mode == "resume":
        reason = f"{reason}; what it did is in the journal: resume the run again"
    return replace(ContinuedReport.never_began(run_id, run.agent, mode, reason), child_exit=status)
