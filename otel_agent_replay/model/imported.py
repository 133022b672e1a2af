"""Runs that another tool recorded: what they may be used for, in words that every command shares."""

from __future__ import annotations

from otel_agent_replay.model.kinds import Fidelity, Kind
from otel_agent_replay.model.recorded import RecordedRun
from otel_agent_replay.model.run import Run

IMPORTED = "import"
"""The mode of such a run."""

_ORDER = list(Fidelity)  # best first


def is_imported(run: Run) -> bool:
    """Whether another tool recorded it."""
    return run.mode == IMPORTED


def cannot_run_again(run: Run) -> str:
    """Return why an imported run's code cannot be run on it, and what can be done with it."""
    return (
        f"run {run.run_id.hex()} was imported: another tool recorded what was asked and answered, not what an agent's "
        "code needs to be run on it again (raw answers, clock, chance, where it begins). It can be shown, queried, "
        "compared (diff, compare) and judged (gate, by its invariants)"
    )


def least_fidelity(recorded: RecordedRun) -> Fidelity | None:
    """Return the fidelity of the model step, or else of the step, that tells least; None without steps."""
    nodes = [node for node in recorded.nodes if node.kind is Kind.MODEL] or [
        node for node in recorded.nodes if node.step is not None
    ]
    return max((node.fidelity for node in nodes), key=_ORDER.index, default=None)


def allowed_words(recorded: RecordedRun) -> str:
    """Return in a line what the fidelity of an imported run allows, "" for a run of our own."""
    if not is_imported(recorded.run):
        return ""
    fidelity = least_fidelity(recorded)
    if fidelity is None:
        return "imported, no steps recognised: to look at, query and compare by names and status; not to run again"
    asking = ", its model steps to ask again" if fidelity in (Fidelity.WIRE, Fidelity.EXCHANGE) else ""
    what = "texts" if fidelity is Fidelity.TEXT else "steps"
    return f"imported, fidelity {fidelity}: {what} to look at, query, compare and judge{asking}; not to run again"
