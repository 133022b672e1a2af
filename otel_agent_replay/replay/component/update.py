"""Writing the event log that came as the one that is expected, and saying what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from otel_agent_replay.casefile.yaml_text import one_a_line
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.component.case import CASE_FILE, Case
from otel_agent_replay.replay.component.expected import NO_LOG, expected_lines, log_differs
from otel_agent_replay.replay.component.result import ComponentResult, ComponentStatus

_UNFINISHED = frozenset(("no_fixture", "fence", "refused", "step_limit"))
_HEAD = "# The expected event log, one event a line: `agent-replay component CASE --update` writes it anew.\n"


def update_expected(case: Case, result: ComponentResult) -> tuple[ComponentResult, Sequence[str]]:
    """Write the log of `result` to the case's events file; return the result as it stands then, and the diff.

    Raises ConfigurationError where the case has its log inline, or where the run was stopped and its log is not whole.
    """
    path = case.events_file
    if path is None:
        raise ConfigurationError(
            f"{case.folder / CASE_FILE} has its events inline, where they are yours to edit: name a file instead "
            "(expect: {events: events.yaml})"
        )
    stopped = [one for one in result.broken if one.rule in _UNFINISHED]
    if result.status is ComponentStatus.CANNOT_JUDGE or stopped:
        why = stopped[0].message.splitlines()[0] if stopped else result.reason
        raise ConfigurationError(f"the event log is not whole, so nothing was written: {why}")
    before = list(expected_lines(case) or ()) if path.exists() else []
    diff = log_differs(before, result.log)
    if diff or not path.exists():
        path.write_text(_HEAD + one_a_line(result.log), encoding="utf-8")
    broken = [one for one in result.broken if one.rule != NO_LOG]
    status = ComponentStatus.BROKEN if broken else ComponentStatus.HOLDS
    notes = [note for note in result.notes if "no event log is expected" not in note]
    return replace(result, status=status, broken=broken, diff=(), notes=notes), diff
