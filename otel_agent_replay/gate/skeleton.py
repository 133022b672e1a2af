"""The first `case.yaml` of a run, for a person to edit: what it called, in which order, what it changed, how it ended.

Everything in it holds of the recorded run: of a bad one, what was wrong has to be said by whoever knows. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from otel_agent_replay.casefile.yaml_text import document
from otel_agent_replay.gate.case import CaseKind
from otel_agent_replay.gate.facts import MISSING, UNREAD, Made, RunFacts
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.payload.canonical import canonical_json

_DECLARED = re.compile(r"(?!__main__)[\w.]+:[\w.]+\Z")
_TOLD = ("tool", "retrieval", "decision", "approval")
_LONGEST = 80
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


def skeleton(recorded: RecordedRun, kind: CaseKind, *, name: str, from_step: int = 0, good: Sequence[str] = ()) -> str:
    """Return the text of `case.yaml` for a run; `name` is the folder that the comment tells, `good` run ids."""
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
        head["good"] = list(good)
    sections = [document(head), document({"expect": _expect(facts)}), document({"effects": {"at_most_once": True}})]
    changes = _changes(facts)
    if changes:
        told = "# The changes of state that were seen; list those that may not be under `forbidden` (A -> B).\n"
        sections.append(told + document({"transitions": {"allowed": changes}}))
    return _HEAD[kind].format(name=name) + "\n".join(sections)


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
    expect["only"] = _distinct([named(made) for made in facts.effects])
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
    if arguments and given not in (MISSING, UNREAD) and isinstance(given, Mapping):
        plain = {name: value for name, value in given.items() if _is_plain(value) and not str(name).startswith("*")}
        if plain:
            told["arguments"] = plain
    return told


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) and len(str(value)) <= _LONGEST


def _order(facts: RunFacts) -> list[dict[str, Any]]:
    """Return the first call of each name, as far as each began after the one before it had ended."""
    found: list[Made] = []
    for made in facts.calls:
        if made.kind not in _TOLD or any(made.label == one.label for one in found):
            continue
        if not found or (found[-1].end_sequence and found[-1].end_sequence <= made.sequence):
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


def _distinct(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({canonical_json(item): item for item in items}.values())
