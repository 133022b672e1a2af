"""What a run's recording holds and what it does not: coverage and losses."""

from __future__ import annotations

from rich.text import Text

from otel_agent_replay.model import RecordedRun
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_STATES = {"captured": ("yes", GOOD), "partial": ("in part", BAD), "not_captured": ("no", BAD)}


def coverage_lines(recorded: RecordedRun) -> list[Text]:
    """Return one line for each thing that may cross, then the losses."""
    lines = [line((f"coverage of run {recorded.run.run_id.hex()}", STRONG))]
    entries = recorded.run.coverage.entries
    if not entries:
        lines.append(line("  the recording has no coverage report: its process died, or another tool made it"))
    width = max((len(entry.what) for entry in entries), default=0)
    for entry in entries:
        word, style = _STATES.get(entry.state, (entry.state, BAD))
        lines.append(line(f"  {entry.what.ljust(width)}  ", (word.ljust(7), style), (f"  {entry.detail}", QUIET)))
    if not recorded.losses:
        lines.append(line("nothing was lost"))
    for loss in recorded.losses:
        detail = f": {loss.detail}" if loss.detail else ""
        lines.append(line((f"lost: {loss.count} {loss.what} ({loss.reason}){detail}", BAD)))
    return lines
