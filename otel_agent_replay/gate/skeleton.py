"""The first `case.yaml` of a run, for a person to edit: what it called, in which order, what it changed, how it ended.

What it states holds of the recorded run: of a bad one, what was wrong has to be said by whoever knows; or it is mined
from good runs, where there are some. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from otel_agent_replay.casefile.yaml_text import document
from otel_agent_replay.gate.case import Case, CaseKind
from otel_agent_replay.gate.facts import Absent, Made, RunFacts
from otel_agent_replay.gate.invariants import check
from otel_agent_replay.gate.stated import Invariant, Rule
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.payload.canonical import canonical_json

_DECLARED = re.compile(r"(?!__main__)[\w.]+:[\w.]+\Z")
_TOLD = ("tool", "retrieval", "decision", "approval")
_LONGEST = 80
_ONE_LIST = ("order", "only", "allowed")
_MOST_PLACES = 8  # of one call's arguments
_HEAD_WITH_GOOD = """\
# What a run of this case must keep: the good runs keep it, the recorded one breaks some of it. Guesses from few runs:
# take out what does not matter, say what is missing, then run
#   agent-replay case seal {name} && agent-replay case check {name}
"""
_HEAD = {
    CaseKind.BAD: """\
# What a run of this case must keep. All below holds of the recorded run, which is a bad one: say what was wrong with it
# (must_not_call, order, object_id, transitions, only ...), take out what does not matter, then run
#   agent-replay case seal {name} && agent-replay case check {name}
""",
    CaseKind.CONTROL: """\
# What must stay as it is: the recorded run is a good one, and a fix for another case must not break it. Take out what
# does not matter, then run
#   agent-replay case seal {name} && agent-replay case check {name}
""",
}


def skeleton(
    recorded: RecordedRun,
    kind: CaseKind,
    *,
    name: str,
    from_step: int = 0,
    good: Sequence[RecordedRun] = (),
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return the text of `case.yaml` for a run; `name` is the folder that its comment tells.

    Of `good` runs, which the case must accept, all that is stated holds too; `more` are sections that are known to.
    """
    facts = RunFacts.of(recorded)
    run = recorded.run
    head: dict[str, Any] = {
        "about": f"Run {run.run_id.hex()} of agent {run.agent}: say in a sentence what is kept here.",
        "kind": kind.value,
        "run": run.run_id.hex(),
    }
    if from_step:
        head["from_step"] = from_step
    if _DECLARED.match(run.entry):
        head["entry"] = run.entry
    if good:
        head["good"] = [one.run.run_id.hex() for one in good]
    changes = _changes(facts)
    stated = {"expect": _expect(facts), **({"transitions": {"allowed": changes}} if changes else {})}
    sections = merged_sections([more or {}, _held_by(stated, good)])
    sections.setdefault("effects", {"at_most_once": True})
    told = _HEAD_WITH_GOOD if good and kind is CaseKind.BAD else _HEAD[kind]
    return told.format(name=name) + "\n".join(
        document(one) for one in [head, *({key: sections[key]} for key in sections)]
    )


def merged_sections(contents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return parts of `case.yaml` as one: lists are joined; of what is one value, or one list for all, the first."""
    whole: dict[str, Any] = {}
    for content in contents:
        for section, rules in content.items():
            into = whole.setdefault(section, {})
            for rule, value in rules.items():
                if isinstance(value, list) and rule not in _ONE_LIST:
                    known = into.setdefault(rule, [])
                    known += [one for one in value if one not in known]
                elif isinstance(value, Mapping):
                    into[rule] = {**value, **into.get(rule, {})}
                else:
                    into.setdefault(rule, value)
    return whole


def _held_by(stated: Mapping[str, Any], good: Sequence[RecordedRun]) -> dict[str, Any]:
    """Return what of the sections holds of every good run."""
    if not good:
        return dict(stated)
    case = Case.of({**stated, "effects": {"at_most_once": False}}, Path())
    held = [frozenset(one.invariant.name for one in check(case, run) if one.holds) for run in good]
    return merged_sections(_content_of(one) for one in case.invariants if all(one.name in names for names in held))


def _content_of(invariant: Invariant) -> dict[str, Any]:
    rule, given = invariant.rule, invariant.given
    if rule is Rule.TRANSITIONS:
        return {"transitions": dict(given)}
    listed = rule in (Rule.MUST_CALL, Rule.MUST_NOT_CALL, Rule.OBJECT_ID, Rule.MUST_CITE, Rule.SQL)
    return {"expect": {rule.value: [given] if listed else given}}


def _expect(facts: RunFacts) -> dict[str, Any]:
    expect: dict[str, Any] = {}
    if facts.run.status.value in ("ok", "error"):
        expect["outcome"] = facts.run.status.value
    calls = _calls(facts)
    if calls:
        expect["must_call"] = calls
    order = _order(facts)
    if len(order) > 1:
        expect["order"] = order
    expect["only"] = distinct([named(made) for made in facts.effects])
    if facts.checkpoints and facts.ended:
        expect["final_state"] = facts.checkpoints[-1].name
    budget = _budget(facts)
    if budget:
        expect["budget"] = budget
    return expect


def _calls(facts: RunFacts) -> list[dict[str, Any]]:
    """Return the calls with their plain arguments, equal ones together."""
    found: dict[bytes, tuple[dict[str, Any], int]] = {}
    for made in facts.calls:
        if made.kind in _TOLD:
            told = named(made, arguments=True)
            key = canonical_json(told)
            found[key] = (told, found[key][1] + 1 if key in found else 1)
    return [told if count == 1 else {**told, "times": {"at_least": count}} for told, count in found.values()]


def named(made: Made, *, arguments: bool = False) -> dict[str, Any]:
    """Return the `call` of `case.yaml` that means this one: its name, and where wanted its plain arguments."""
    told: dict[str, Any] = {made.kind: re.sub(r"([*?\[])", r"[\1]", made.name)}
    given = made.arguments
    if arguments and isinstance(given, Mapping):
        plain = {path: value for path, value in leaves(given) if _is_plain(value) and not path.startswith("*")}
        if plain:
            told["arguments"] = dict(list(plain.items())[:_MOST_PLACES])
    return told


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the plain values of a JSON value, each with its path: order.items[0].id."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}[{number}]")
    elif value is not None and not isinstance(value, Absent) and path:
        yield path, value


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) and len(str(value)) <= _LONGEST


def _order(facts: RunFacts) -> list[dict[str, Any]]:
    """Return the first call of each name, as far as the code waits for each before it makes the next."""
    found: list[Made] = []
    for made in facts.calls:
        if made.kind not in _TOLD or any(made.label == one.label for one in found):
            continue
        if not found or facts.leads(found[-1], made):
            found.append(made)
    return [named(made) for made in found]


def _changes(facts: RunFacts) -> list[str]:
    names = [made.name for made in facts.checkpoints if made.name and not re.search(r"\s", made.name)]
    return list(dict.fromkeys(f"{before} -> {after}" for before, after in pairwise(names) if before != after))


def _budget(facts: RunFacts) -> dict[str, Any]:
    """Return ceilings half as high again as what was used, in round numbers."""
    budget: dict[str, Any] = {}
    for measure in ("tokens", "cost_usd", "steps"):
        total = facts.spent[measure].total
        if total:
            ceiling = total * 1.5
            budget[measure] = round(ceiling, 4) if measure == "cost_usd" else math.ceil(ceiling)
    return budget


def distinct(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each of the items once."""
    return list({canonical_json(item): item for item in items}.values())
