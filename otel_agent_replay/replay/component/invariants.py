"""What must hold of every run of a case, looked for in its event log: changes of state, and effects.

Pure: a case's rules and events in, broken rules out. Not only the last status counts: each change must be an allowed
one, terminal states must end, and no effect may happen twice or after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_agent_replay.model import Kind
from otel_agent_replay.replay.component.case import Case, Transitions
from otel_agent_replay.replay.component.event_log import END, Event

_CHECKPOINT = Kind.CHECKPOINT.value
_ERROR = "error"


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that does not hold: `rule` is its stable name, `event` the number of the event that breaks it, or 0."""

    rule: str
    event: int
    message: str


def states(rules: Transitions, events: Sequence[Event]) -> list[tuple[Event | None, str]]:
    """Return the states that the run went through, with the checkpoint that told each; the start's is None."""
    found: list[tuple[Event | None, str]] = [(None, rules.start)] if rules.start else []
    for event in events:
        if event.kind == _CHECKPOINT:
            name = rules.state_of(event.name, event.state)
            if name is not None:
                found.append((event, name))
    return found


def broken_rules(case: Case, events: Sequence[Event]) -> list[Broken]:
    """Return every rule of the case that the events break, in the order of the events."""
    rules = case.transitions
    found = [*_changes(rules, events), *_after_the_end(rules, events), *_after_failure(rules, events)]
    if case.at_most_once:
        found += _twice(events)
    return sorted(found, key=lambda one: one.event)


def _changes(rules: Transitions, events: Sequence[Event]) -> Iterator[Broken]:
    before = ""
    for event, state in states(rules, events):
        wrong = "" if event is None else rules.wrong_change(before, state)
        if event is not None and wrong == "forbidden":
            yield Broken("forbidden_transition", event.number, f"{before} -> {state} is forbidden")
        elif event is not None and wrong:
            yield Broken("transition_not_allowed", event.number, f"{before} -> {state} is not among the allowed")
        before = state


def _after_the_end(rules: Transitions, events: Sequence[Event]) -> Iterator[Broken]:
    """Look for what goes on after a terminal state."""
    ended = ""
    for event in events:
        state = rules.state_of(event.name, event.state) if event.kind == _CHECKPOINT else None
        if ended and state is not None and state != ended:
            yield Broken("after_terminal_state", event.number, f"the state changes to {state} after {ended}")
        elif ended and event.happened:
            yield Broken("after_terminal_state", event.number, f"{event.effect} happens after {ended}")
        if state in rules.terminal:
            ended = str(state)


def _after_failure(rules: Transitions, events: Sequence[Event]) -> Iterator[Broken]:
    failed = ""
    for event in events:
        if failed and event.happened:
            yield Broken("effect_after_failure", event.number, f"{event.effect} happens after {failed}")
        if event.kind == END and event.run == 1 and event.status == _ERROR:
            failed = f"the run failed ({event.error})"
        elif event.kind == _CHECKPOINT and rules.state_of(event.name, event.state) in rules.failed:
            failed = str(rules.state_of(event.name, event.state))


def _twice(events: Sequence[Event]) -> Iterator[Broken]:
    """Look for effects that happen again: under another key, or without one by which the system could tell."""
    first: dict[str, Event] = {}
    for event in events:
        if not event.happened:
            continue
        before = first.setdefault(event.effect, event)
        if before is event or (event.key and event.key == before.key):
            continue
        why = "neither has a key" if not event.key and not before.key else "under another key"
        yield Broken("effect_twice", event.number, f"{event.effect} happened at event {before.number} already, {why}")
