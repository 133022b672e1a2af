"""What a run's recording holds and what it does not: coverage and losses."""

from __future__ import annotations

from rich.text import Text

from otel_agent_replay.model import LossReason, RecordedRun, allowed_words
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_STATES = {"captured": ("yes", GOOD), "partial": ("in part", BAD), "not_captured": ("no", BAD)}


def coverage_lines(recorded: RecordedRun, limit: int = 0) -> list[Text]:
    """Return one line for each thing that may cross, then the losses, at most `limit` of them (0: all)."""
    lines = [line((f"coverage of run {recorded.run.run_id.hex()}", STRONG))]
    entries = recorded.run.coverage.entries
    if not entries:
        told = allowed_words(recorded) or "the recording has no coverage report: its process died"
        lines.append(line(f"  {told}"))
    width = max((len(entry.what) for entry in entries), default=0)
    for entry in entries:
        word, style = _STATES.get(entry.state, (entry.state, BAD))
        lines.append(line(f"  {entry.what.ljust(width)}  ", (word.ljust(7), style), (f"  {entry.detail}", QUIET)))
    if not recorded.losses:
        lines.append(line("nothing was lost"))
    shown = recorded.losses[:limit] if limit else recorded.losses
    for loss in shown:
        detail = f": {loss.detail}" if loss.detail else ""
        if loss.reason is LossReason.DAMAGED:
            where = f" at span {loss.span_id.hex()}" if loss.span_id else ""
            lines.append(line((f"odd: {loss.what}{where}{detail}", BAD)))
        else:
            lines.append(line((f"lost: {loss.count} {loss.what} ({loss.reason}){detail}", BAD)))
    if len(shown) < len(recorded.losses):
        lines.append(line((f"... and {len(recorded.losses) - len(shown):,} more: --limit 0 shows all", QUIET)))
    return lines
