"""Which changes matter most: a rank with its reasons, from what the steps are and not from what they say. Pure.

A dropped check, a new write and a lost one come first; one read fewer is an improvement. Of the final answer alone the
facts count. Known of a step are its kind, its side
effect, the labels that the user's rules give it, and, where nothing else is known, a label told by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from otel_agent_replay.compare.changes import Added, Change, Changed, Field, FieldChange, Moved, NodeRef, Removed
from otel_agent_replay.compare.comparison import Comparison
from otel_agent_replay.compare.departure import Cause
from otel_agent_replay.compare.text_facts import compare_texts
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import AnswerSource, Kind, Node, OutcomeStatus, RecordedRun, SideEffect

_CHECKS = ("approval", "permission", "policy")
_BY_NAME = (
    ("approval", re.compile(r"approv|human_review|sign_?off", re.IGNORECASE)),
    ("permission", re.compile(r"permission|authori[sz]|access_check|may_", re.IGNORECASE)),
    ("policy", re.compile(r"policy|guardrail|complian|moderat|safety", re.IGNORECASE)),
)
_RULE_KEYS = ("name", "kind", "label", "risk", "why")
_CHANGING = (SideEffect.WRITE, SideEffect.EXTERNAL)
_FIELDS = {
    Field.SIDE_EFFECT: (92, "it is declared with another side effect"),
    Field.FAILURE: (65, "it fails otherwise"),
    Field.STATUS: (65, "it ends otherwise"),
    Field.INSTRUCTIONS: (45, "the instructions differ"),
    Field.TOOLS: (45, "the tools offered differ"),
    Field.TOOL_CALLS: (40, "the model asks for other calls"),
    Field.MODEL: (35, "another model is asked"),
    Field.PARAMETERS: (35, "the model is asked with other parameters"),
    Field.ENVIRONMENT: (30, "the code read another environment"),
    Field.REQUEST: (30, "it is asked something else"),
    Field.ENDPOINT: (30, "another endpoint is asked"),
    Field.RESULT: (25, "it answers something else"),
    Field.TEXT: (20, "the model says something else"),
}


@dataclass(frozen=True, slots=True)
class RiskRule:
    """What the user says of steps: `name` and `kind` are patterns (`*`); the first rule that fits a step counts.

    `label` is "approval", "permission" or "policy" for a check, or a word of the user's own; `risk`, 0 to 100, is the
    least rank of any change of such a step, and `why` stands beside it.
    """

    name: str = "*"
    kind: str = "*"
    label: str = ""
    risk: int = 0
    why: str = ""

    def fits(self, kind: str, name: str) -> bool:
        """Whether the rule is about such a step."""
        return fnmatchcase(name, self.name) and fnmatchcase(kind, self.kind)


@dataclass(frozen=True, slots=True)
class RankedChange:
    """A change with its rank, 0 to 100, and why; `number` is its place in `Comparison.changes`.

    `is_improvement` is one that takes a risk or work away.
    """

    change: Change
    number: int
    risk: int
    reasons: Sequence[str]
    is_improvement: bool = False


def risk_rules(document: Any, source: str) -> list[RiskRule]:
    """Return the rules of a document: `rules`, a list of mappings. Raises ConfigurationError that names the place."""
    listed = document.get("rules") if isinstance(document, Mapping) else None
    if not isinstance(listed, list) or len(document) != 1:
        raise ConfigurationError(f"{source}: one key `rules` with a list of rules is wanted")
    return [_rule(item, f"{source}: rules[{number}]") for number, item in enumerate(listed)]


def _rule(item: Any, where: str) -> RiskRule:
    if not isinstance(item, Mapping):
        raise ConfigurationError(f"{where} is no mapping; a rule has {', '.join(_RULE_KEYS)}")
    unknown = sorted(set(item) - set(_RULE_KEYS))
    if unknown:
        raise ConfigurationError(f"{where} has the unknown key {unknown[0]!r}; a rule has {', '.join(_RULE_KEYS)}")
    risk = item.get("risk", 0)
    if isinstance(risk, bool) or not isinstance(risk, int) or not 0 <= risk <= 100:
        raise ConfigurationError(f"{where}: risk {risk!r} is no whole number from 0 to 100")
    if not item.get("label") and not risk:
        raise ConfigurationError(f"{where} says nothing: give it a `label` or a `risk`")
    text = {key: str(item[key]) for key in ("name", "kind", "label", "why") if key in item}
    return RiskRule(risk=risk, **text)


def rank_changes(
    comparison: Comparison, a: RecordedRun, b: RecordedRun, rules: Sequence[RiskRule] = ()
) -> list[RankedChange]:
    """Return every change of a comparison of `a` and `b`, riskiest first; equal ranks in their order of time."""
    ranking = _Ranking(a, b, rules)
    ranked = [ranking.rank(change, number) for number, change in enumerate(comparison.changes)]
    cause = None if comparison.departure is None else comparison.departure.cause
    if cause is not None and cause in _UNSEEN:
        ranked = [_unseen(item, cause) if isinstance(item.change, (Added, Removed)) else item for item in ranked]
    return sorted(ranked, key=lambda item: (-item.risk, item.number))


def _unseen(item: RankedChange, cause: Cause) -> RankedChange:
    """Say of a step in one recording only that the other may have had it, which then is no improvement."""
    reasons = [*item.reasons, f"unless it happened unseen: {cause}"]
    return replace(item, reasons=reasons, is_improvement=False)


@dataclass(frozen=True, slots=True)
class _Step:
    """What is known of one node: `label` with where it is known from."""

    kind: str
    name: str
    effect: SideEffect
    label: str
    told: str
    rule: RiskRule | None
    refused: bool


_UNSEEN = frozenset({Cause.ENDING_NOT_OBSERVED, Cause.INCOMPLETE, Cause.UNRECORDED_ANSWER})

_Finding = tuple[int, str, bool]  # risk, reason, whether it is an improvement


class _Ranking:
    def __init__(self, a: RecordedRun, b: RecordedRun, rules: Sequence[RiskRule]) -> None:
        self._rules = rules
        self._a, self._b = a.nodes, b.nodes
        self._by_path_a = {node.path: node for node in self._a}
        self._by_path_b = {node.path: node for node in self._b}

    def rank(self, change: Change, number: int) -> RankedChange:
        if isinstance(change, Added):
            findings = self._within(self._b, change.b, change.below, self._added)
        elif isinstance(change, Removed):
            findings = self._within(self._a, change.a, change.below, self._removed)
        elif isinstance(change, Moved):
            findings = [self._moved(self._step(change.a, self._by_path_a.get(change.a.path)))]
        else:
            findings = self._changed(change)
        worst = max(findings, key=lambda finding: finding[0])
        reasons = [reason for risk, reason, _ in sorted(findings, key=lambda one: -one[0]) if risk == worst[0]]
        ends = [getattr(change, side) for side in ("a", "b") if hasattr(change, side)]
        ruled = next((rule for end in ends if (rule := self._rule(end.kind, end.name)) is not None), None)
        if ruled is not None and ruled.risk > worst[0]:
            why = ruled.why or f"a rule says so of {ruled.kind} {ruled.name}"
            return RankedChange(change, number, ruled.risk, [why, *dict.fromkeys(reasons)])
        return RankedChange(change, number, worst[0], list(dict.fromkeys(reasons))[:3], worst[2])

    def _within(
        self, nodes: Sequence[Node], top: NodeRef, below: int, judge: Callable[[_Step], _Finding]
    ) -> list[_Finding]:
        """Judge a one-sided step and all that came or went with it."""
        inside = [node for node in nodes if node.path[: len(top.path)] == top.path] if below and top.path else []
        own = next((node for node in inside if node.path == top.path), None)
        if own is None and top.path:
            own = (self._by_path_a if nodes is self._a else self._by_path_b).get(top.path)
        found = [judge(self._step(top, own))]
        return found + [judge(self._step(None, node)) for node in inside if node is not own]

    def _step(self, reference: NodeRef | None, node: Node | None) -> _Step:
        kind = node.kind.value if node is not None else reference.kind if reference is not None else ""
        name = node.name if node is not None else reference.name if reference is not None else ""
        rule = self._rule(kind, name)
        label, told = ("approval", "its kind") if kind == Kind.APPROVAL else ("", "")
        if rule is not None and rule.label:
            label, told = rule.label, "a rule"
        elif not label and kind not in (Kind.RUN, Kind.MODEL):
            label = next((word for word, pattern in _BY_NAME if pattern.search(name)), "")
            told = "its name" if label else ""
        effect = SideEffect.NONE if node is None else node.side_effect
        refused = node is not None and node.source is AnswerSource.REFUSED
        return _Step(kind, name, effect, label, told, rule, refused)

    def _rule(self, kind: str, name: str) -> RiskRule | None:
        return next((rule for rule in self._rules if rule.fits(kind, name)), None)

    @staticmethod
    def _removed(step: _Step) -> _Finding:
        if step.label in _CHECKS:
            return 100, f"a check is gone: {step.name} ({step.label}, by {step.told})", False
        if step.effect in _CHANGING and not step.refused:  # a task not done: worse than done at another place
            return 90, f"{step.name} no longer happens, which is {_effect(step)}", False
        if step.kind in (Kind.TOOL, Kind.RETRIEVAL, Kind.HTTP, Kind.MODEL):
            return 0, f"one call of {step.name} fewer, which only reads", True
        return 10, f"{step.name} is gone", False

    @staticmethod
    def _added(step: _Step) -> _Finding:
        if step.label in _CHECKS:
            return 5, f"a check more: {step.name} ({step.label}, by {step.told})", True
        if step.effect in _CHANGING:
            refused = " (it was refused)" if step.refused else ""
            return 95, f"{step.name} is new, which is {_effect(step)}{refused}", False
        return (
            15,
            f"{step.name} is new, which only reads" if step.effect is SideEffect.READ else f"{step.name} is new",
            False,
        )

    @staticmethod
    def _moved(step: _Step) -> _Finding:
        if step.label in _CHECKS:
            return 85, f"the check {step.name} stands at another place ({step.label}, by {step.told})", False
        if step.effect in _CHANGING:
            return 80, f"{step.name} stands at another place, which is {_effect(step)}", False
        return 8, f"{step.name} stands at another place", False

    def _changed(self, change: Changed) -> list[_Finding]:
        one, other = self._by_path_a.get(change.a.path), self._by_path_b.get(change.b.path)
        step = self._step(change.b, other if other is not None else one)
        found: list[_Finding] = []
        for item in change.fields:
            risk, reason = _FIELDS.get(item.field, (15, f"{item.field} differs"))
            if step.kind == Kind.RUN and item.field is Field.RESULT:
                risk, reason = _final_answer(item)
            elif item.field in (Field.STATUS, Field.FAILURE) and _mended(one, other):
                found.append((3, "it failed and no longer does", True))
                continue
            elif step.label in _CHECKS and not item.field.is_request:
                risk, reason = 90, f"a check answers otherwise ({step.label}, by {step.told})"
            elif step.label in _CHECKS:
                risk, reason = max(risk, 75), f"a check is asked something else ({step.label}, by {step.told})"
            elif step.effect in _CHANGING and item.field in (Field.REQUEST, Field.ENDPOINT, Field.NAME):
                risk, reason = 88, f"{item.field} of {_effect(step)} differs"
            found.append((risk, reason, False))
        return found


def _final_answer(item: FieldChange) -> tuple[int, str]:
    """Judge a final answer by its facts where text stands against text: other words alone are no risk."""
    whole = item.differences[0] if len(item.differences) == 1 and not item.by_digest else None
    if whole is None or not isinstance(whole.before, str) or not isinstance(whole.after, str):
        return 50, "the final answer differs"
    found = compare_texts(whole.before, whole.after)
    kinds = dict.fromkeys(difference.kind.value for difference in found.differences)
    if kinds:
        return 55, f"the final answer differs in facts ({', '.join(kinds)})"
    return (
        (25, "the final answer has other words, and the same facts")
        if found.whole
        else (50, "the final answer differs")
    )


def _effect(step: _Step) -> str:
    return "a write" if step.effect is SideEffect.WRITE else "a call with an effect outside, or not declared"


def _mended(one: Node | None, other: Node | None) -> bool:
    before = None if one is None else one.outcome
    after = None if other is None else other.outcome
    if before is None or after is None:
        return False
    return before.status is OutcomeStatus.ERROR and after.status is OutcomeStatus.OK
