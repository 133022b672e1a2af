"""What old recordings ask of a replayer: differences in behaviour that it must imitate, each by its name."""

from __future__ import annotations

from otel_agent_replay.model.imported import cannot_run_again, is_imported
from otel_agent_replay.model.run import Run

KNOWN_QUIRKS: frozenset[str] = frozenset()
"""The quirks that this version can imitate. None had to be yet."""


def why_not_again(run: Run) -> str:
    """Return why a run's code cannot be run on it, "" where it can: imported, or it asks for what is not known here."""
    if is_imported(run):
        return cannot_run_again(run)
    unknown = sorted(set(run.quirks) - KNOWN_QUIRKS)
    if not unknown:
        return ""
    named = ", ".join(map(repr, unknown))
    return (
        f"run {run.run_id.hex()} was recorded with {named}, which this version does not know how to imitate: upgrade "
        "otel-agent-replay to replay it; it can be shown, queried and compared"
    )
