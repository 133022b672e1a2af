"""Invariants mined from runs: what holds of every good one and is broken by the bad one, for a person to keep. Pure.

Candidates are made from what the runs did, each is held against all of them, and only what tells them apart is left. A
suggestion is a guess from few runs: it says how many, and what of the bad run breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from otel_agent_replay.gate.case import Case
from otel_agent_replay.gate.facts import MISSING, UNREAD, Made, RunFacts
from otel_agent_replay.gate.invariants import check
from otel_agent_replay.gate.pattern import at_path
from otel_agent_replay.gate.result import Evidence, State
from otel_agent_replay.gate.skeleton import named
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.payload.canonical import canonical_json

_TOLD = ("tool", "retrieval", "decision", "approval", "http")
_MOST_PAIRS = 40
_OVER = 1.5  # of what the dearest good run used


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One invariant: its name, the part of `case.yaml` that states it, how many good runs keep it, what breaks it."""

    name: str
    content: Mapping[str, Any]
    good: int
    evidence: Sequence[Evidence]


def suggest(bad: RecordedRun, good: Sequence[RecordedRun]) -> list[Suggestion]:
    """Return what tells the bad run from the good ones, the most telling first; [] where nothing does."""
    facts = [RunFacts.of(run) for run in good]
    found: dict[bytes, Suggestion] = {}
    for content in _candidates(RunFacts.of(bad), facts):
        key = canonical_json(content)
        if key in found:
            continue
        case = Case.of({"effects": {"at_most_once": False}, **content}, Path("suggested"))
        if not all(one.holds for run in good for one in check(case, run)):
            continue
        broken = [one for one in check(case, bad) if one.state is State.BROKEN]
        if broken:
            found[key] = Suggestion(broken[0].invariant.name, content, len(good), broken[0].evidence)
    return list(found.values())


def merged(suggestions: Sequence[Suggestion]) -> dict[str, Any]:
    """Return the suggestions as one part of `case.yaml`; of `order`, which is one list, the first alone."""
    whole: dict[str, Any] = {}
    for suggestion in suggestions:
        for section, content in suggestion.content.items():
            into = whole.setdefault(section, {})
            for rule, value in content.items():
                if isinstance(value, list) and rule not in ("order", "only"):
                    into.setdefault(rule, []).extend(value)
                elif isinstance(value, Mapping):
                    into.setdefault(rule, {}).update(value)
                else:
                    into.setdefault(rule, value)
    return whole


def _candidates(bad: RunFacts, good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    yield from _changes(bad, good)
    yield from _calls_of_bad(bad, good)
    yield {"expect": {"only": _distinct(named(made) for facts in good for made in facts.effects)}}
    yield from _orders(good)
    yield from _objects(good)
    yield {"effects": {"at_most_once": True}}
    yield from _at_most_once(good)
    yield from _calls_of_good(good)
    yield from _ends(good)
    yield from _ceilings(good)


def _changes(bad: RunFacts, good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    seen = {change for facts in good for change in _steps(facts)}
    for change in _steps(bad):
        if change not in seen and all(name and " " not in name for name in change):
            yield {"transitions": {"forbidden": [f"{change[0]} -> {change[1]}"]}}


def _steps(facts: RunFacts) -> list[tuple[str, str]]:
    return [(one, other) for one, other in pairwise(made.name for made in facts.checkpoints) if one != other]


def _calls_of_bad(bad: RunFacts, good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    known = {made.label for facts in good for made in facts.calls}
    for made in _told(bad):
        if made.label not in known:
            yield {"expect": {"must_not_call": [named(made)]}}


def _orders(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    """Yield pairs that lie in this order in every good run: a check before what changes the world comes first."""
    labels = [{made.label: made for made in reversed(_told(facts))} for facts in good]
    shared = [made for label, made in labels[0].items() if all(label in one for one in labels)] if labels else []
    shared.sort(key=lambda made: (not made.effect, made.sequence))
    pairs = [(one, other) for other in shared for one in shared if one.sequence < other.sequence]
    for one, other in pairs[:_MOST_PAIRS]:
        yield {"expect": {"order": [named(one), named(other)]}}


def _objects(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    """Yield arguments that are what the run's input has somewhere."""
    if not good or not isinstance(good[0].input, Mapping):
        return
    inputs = dict(_leaves(good[0].input, ""))
    for made in _told(good[0]):
        for path, value in _leaves(made.arguments, ""):
            for place, given in inputs.items():
                equal = value == given and type(value) is type(given) and not isinstance(value, bool)
                if equal and all(at_path(facts.input, place) is not MISSING for facts in good):
                    yield {"expect": {"object_id": [{"call": named(made), "path": path, "same_as": place}]}}


def _at_most_once(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    for call in _distinct(named(made) for facts in good for made in facts.effects):
        yield {"expect": {"at_most_once": [call]}}


def _calls_of_good(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    for call in _distinct(named(made) for made in (_told(good[0]) if good else ())):
        yield {"expect": {"must_call": [call]}}
    for call in _distinct(named(made, arguments=True) for made in (_told(good[0]) if good else ())):
        yield {"expect": {"must_call": [call]}}


def _ends(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    statuses = {facts.run.status.value for facts in good}
    if len(statuses) == 1 and statuses <= {"ok", "error"}:
        yield {"expect": {"outcome": statuses.pop()}}
    states = {facts.checkpoints[-1].name for facts in good if facts.checkpoints}
    if len(states) == 1:
        yield {"expect": {"final_state": states.pop()}}


def _ceilings(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    for measure in ("tokens", "cost_usd", "steps", "model_calls"):
        totals = [facts.spent[measure].total for facts in good]
        known = [total for total in totals if total is not None]
        if known and len(known) == len(totals) and max(known):
            ceiling = max(known) * _OVER
            yield {"expect": {"budget": {measure: round(ceiling, 4) if measure == "cost_usd" else math.ceil(ceiling)}}}


def _told(facts: RunFacts) -> list[Made]:
    return [made for made in facts.calls if made.kind in _TOLD]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    elif value is not None and value not in (MISSING, UNREAD) and path:
        yield path, value


def _distinct(items: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({canonical_json(item): item for item in items}.values())
