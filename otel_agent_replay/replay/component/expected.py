"""What a case expects of its run, held against what came: outcome, result, final state, and the whole event log."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay.casefile.holding import holds
from otel_agent_replay.casefile.yaml_text import one_a_line, read_yaml
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.event_log import END, Event
from otel_agent_replay.replay.component.invariants import Broken, states

NO_LOG = "expected_log_missing"
"""The rule that a case breaks when it names an event log that is not there."""


def unmet(case: Case, events: Sequence[Event]) -> list[Broken]:
    """Return what of outcome, error, result and final state is not as expected; a run that fails has to be expected."""
    expect = case.expect
    end = next((event for event in reversed(events) if event.kind == END and event.run == 1), None)
    found = []
    if end is None:
        return [Broken("outcome", 0, "the run never ended")]
    wanted = expect.get("outcome", "error" if "error" in expect else "ok")
    if wanted != end.status:
        told = f" ({end.error}: {end.message})" if end.error else ""
        found.append(Broken("outcome", end.number, f"the run ended {end.status}{told}, expected {wanted}"))
    if "error" in expect and expect["error"] not in (end.error, end.error.rpartition(":")[2].rpartition(".")[2]):
        came = end.error or "no error"
        found.append(Broken("error", end.number, f"the run ended in {came}, expected {expect['error']}"))
    if "result" in expect and not holds(end.result, expect["result"]):
        found.append(Broken("result", end.number, f"the result is {end.result!r}, expected {expect['result']!r}"))
    named = expect.get("events")
    if isinstance(named, str) and not case.file(named).exists():
        told = f"the expected event log {named} is not there: `agent-replay component CASE --update` writes it"
        found.append(Broken(NO_LOG, 0, told))
    if "final_state" in expect:
        found += _final_state(case, events, expect["final_state"])
    return found


def _final_state(case: Case, events: Sequence[Event], wanted: Any) -> list[Broken]:
    known = [(event, name) for event, name in states(case.transitions, events) if event is not None]
    if not known:
        return [Broken("final_state", 0, f"no checkpoint tells a state, expected {wanted!r}")]
    event, name = known[-1]
    came, fits = (name, name == wanted) if isinstance(wanted, str) else (event.state, holds(event.state, wanted))
    return [] if fits else [Broken("final_state", event.number, f"the last state is {came!r}, expected {wanted!r}")]


def expected_lines(case: Case) -> Sequence[Mapping[str, Any]] | None:
    """Return the expected event log, None where there is none so far. Raises ConfigurationError for a wrong file."""
    inline = case.expect.get("events")
    if isinstance(inline, list):
        return inline
    path = case.events_file
    if path is None or not path.exists():
        return None
    lines = read_yaml(path)
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise ConfigurationError(f"{path} is not a list of events")
    return lines


def log_differs(expected: Sequence[Mapping[str, Any]], came: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a diff from the expected event log to the one that came, [] when it is as expected.

    An expected event says what it cares for: keys that it leaves out are not compared. None may be missing or more.
    """
    if len(expected) == len(came) and all(holds(is_now, was) for was, is_now in zip(expected, came, strict=True)):
        return []
    # An event that is as expected is shown as the case has it.
    shown = [_shown(event, expected) for event in came]
    before, after = (one_a_line(lines).splitlines() for lines in (expected, shown))
    return [line.rstrip() for line in difflib.unified_diff(before, after, "expected", "came", lineterm="")]


def _shown(event: Mapping[str, Any], expected: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((line for line in expected if line and holds(event, line)), event)
