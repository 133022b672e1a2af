"""Invariants mined from runs: what holds of every good one and is broken by the bad one, for a person to keep. Pure.

Candidates are made from what the runs did, each is held against all of them, and only what tells them apart is left. A
suggestion is a guess from few runs: it says how many, and what of the bad run breaks it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from otel_agent_replay.gate.case import Case
from otel_agent_replay.gate.end_rules import text_of
from otel_agent_replay.gate.facts import MISSING, Made, RunFacts
from otel_agent_replay.gate.invariants import check
from otel_agent_replay.gate.pattern import at_path
from otel_agent_replay.gate.result import Evidence, State
from otel_agent_replay.gate.skeleton import distinct, leaves, merged_sections, named
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.payload.canonical import canonical_json

_TOLD = ("tool", "retrieval", "decision", "approval", "http")
_READ = ("tool", "retrieval", "http")
_NAMED = re.compile(r"(?<![\w-])(?=[\w-]*[A-Za-z])(?=[\w-]*\d)[\w-]{4,}(?![\w-])")
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
    if not good:
        return []  # of no run everything holds
    facts = [RunFacts.of(run) for run in good]
    found: dict[bytes, Suggestion] = {}
    for about, content in _candidates(RunFacts.of(bad), facts):
        key = canonical_json(about or content)
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
    return merged_sections(one.content for one in suggestions)


_Candidate = tuple[str, dict[str, Any]]
"""What it is about ("": only itself) and what states it: of several about one thing the first that holds is kept."""


def _candidates(bad: RunFacts, good: Sequence[RunFacts]) -> Iterator[_Candidate]:
    for alone in (_changes(bad, good), _calls_of_bad(bad, good), _only(good), _orders(good), _objects(good)):
        yield from (("", content) for content in alone)
    yield "twice", {"effects": {"at_most_once": True}}
    yield from _calls_of_good(good)
    for alone in (_cited(good), _ends(good), _ceilings(good)):
        yield from (("", content) for content in alone)


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


def _only(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    yield {"expect": {"only": distinct(named(made) for facts in good for made in facts.effects)}}


def _orders(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    """Yield pairs that every good run's code keeps in this order: those that end in what changes the world first."""
    labels = [{made.label: made for made in reversed(_told(facts))} for facts in good]
    shared = [made for label, made in labels[0].items() if all(label in one for one in labels)] if labels else []
    shared.sort(key=lambda made: (not made.effect, made.sequence))
    pairs = [
        (one, other)
        for other in shared
        for one in shared
        if all(
            facts.leads(by_label[one.label], by_label[other.label])
            for facts, by_label in zip(good, labels, strict=True)
        )
    ]
    for one, other in pairs[:_MOST_PAIRS]:
        yield {"expect": {"order": [named(one), named(other)]}}


def _objects(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    """Yield arguments that are what the run's input has somewhere."""
    if not good or not isinstance(good[0].input, Mapping):
        return
    inputs = dict(leaves(good[0].input))
    for made in _told(good[0]):
        for path, value in leaves(made.arguments):
            for place, given in inputs.items():
                equal = value == given and type(value) is type(given) and not isinstance(value, bool)
                if equal and all(at_path(facts.input, place) is not MISSING for facts in good):
                    yield {"expect": {"object_id": [{"call": named(made), "path": path, "same_as": place}]}}


def _calls_of_good(good: Sequence[RunFacts]) -> Iterator[_Candidate]:
    """Yield the calls of the first good run, with their arguments and without, and effects that come once."""
    for made in _told(good[0]) if good else ():
        yield f"call {made.label}", {"expect": {"must_call": [named(made, arguments=True)]}}
        yield f"call {made.label}", {"expect": {"must_call": [named(made)]}}
        if not made.effect:
            yield f"twice {made.label}", {"expect": {"at_most_once": [named(made)]}}


def _cited(good: Sequence[RunFacts]) -> Iterator[dict[str, Any]]:
    """Yield names with a number in them that every good run's answer has, and that something it read has too."""
    shared: set[str] = set()
    for number, facts in enumerate(good):
        read = {name for made in facts.calls if made.kind in _READ for name in _NAMED.findall(text_of(made.result))}
        said = set(_NAMED.findall(text_of(facts.output))) & read
        shared = said if number == 0 else shared & said
    for name in sorted(shared):
        yield {"expect": {"must_cite": [name]}}


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
