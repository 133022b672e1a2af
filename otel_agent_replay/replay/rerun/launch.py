"""Starting a process that re-runs a run, behind walls, and reading its report."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from otel_agent_replay.errors import ConfigurationError, RecordingError
from otel_agent_replay.model import Run
from otel_agent_replay.replay.enclosed import Enclosure, Ended, why_no_report
from otel_agent_replay.replay.launch import starts_process_run
from otel_agent_replay.replay.report_file import read_whole
from otel_agent_replay.replay.rerun.plan import RerunPlan
from otel_agent_replay.replay.rerun.report import KILLED, RerunReport, RerunStatus


def lake_for_reruns(lake: Path, into: Path | None = None) -> Path:
    """Return the folder of the lake that re-runs go to, made if need be: `into`, else `<lake>-reruns` beside the lake.

    Raises ConfigurationError when it is the recorded runs' own lake, or one lies in the other.
    """
    own = Path(lake).resolve()
    found = own.with_name(f"{own.name}-reruns") if into is None else Path(into).resolve()
    if found == own or own in found.parents or found in own.parents:
        raise ConfigurationError(f"--into {found}: re-runs go to a lake of their own, not to that of the runs ({own})")
    found.mkdir(parents=True, exist_ok=True)
    return found


def rerun_command(
    run: Run, argv: Sequence[str], plan: RerunPlan, *, enclosure: Enclosure, max_steps: int = 0
) -> RerunReport:
    """Run a recorded run again by starting `argv` behind the walls of `enclosure`; return how it went.

    `enclosure.into` is the lake of the re-run. Raises ConfigurationError for a command that cannot be set up,
    CannotJudge where the walls cannot stand.
    """
    if enclosure.into is None:
        raise ConfigurationError("a re-run goes to a lake of its own: give the enclosure one (`into`)")
    with tempfile.TemporaryDirectory(prefix="agent-replay-", ignore_cleanup_errors=True) as folder:
        report, path = Path(folder) / "report.json", Path(folder) / "plan.json"
        plan.write(path)
        options = {
            "REPORT": str(report),
            "PLAN": str(path),
            "PROCESS_RUN": str(starts_process_run(run, argv)).lower(),
            "MAX_STEPS": str(max_steps or ""),
        }
        ended = enclosure.run(run, argv, Path(folder), action="rerun", mode="regression", options=options)
        return _with_refused(_report(run, report, ended, enclosure), ended.refused)


def _report(run: Run, path: Path, ended: Ended, enclosure: Enclosure) -> RerunReport:
    status = ended.status
    why = why_no_report(status, enclosure.timeout_s, enclosure.limits)
    found = RerunReport.not_begun(run.run_id.hex(), run.agent, "")
    if not path.exists():
        return replace(found, reason=why, child_exit=status)
    try:
        found = replace(RerunReport.from_json(read_whole(path)), child_exit=status)
    except (OSError, RecordingError) as error:
        return replace(found, reason=f"the report cannot be read: {error}", child_exit=status)
    was_killed = status is None or enclosure.limits.killed(status) != ""
    if was_killed and found.status is not RerunStatus.FINISHED:
        return replace(found, status=RerunStatus.STOPPED, reason=why, code=KILLED)
    return found


def _with_refused(report: RerunReport, addresses: Sequence[str]) -> RerunReport:
    """Add what was refused outside the process: a way out that its own fence did not see."""
    seen = tuple(f"connect to {address}" for address in addresses)
    return replace(report, refused=report.refused + seen) if seen else report


def endpoint_of(url: str) -> str:
    """Return the endpoint (`host:port`) of an address. Raises ConfigurationError where it names no host."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigurationError(f"{url!r} is no http or https address")
    return f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
