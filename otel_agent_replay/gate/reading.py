"""The invariants that a case's document states, each with a name of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from otel_agent_replay.casefile.document import CaseDocument
from otel_agent_replay.casefile.duration import duration_ns
from otel_agent_replay.casefile.transitions import Transitions
from otel_agent_replay.gate.pattern import CallPattern, operators_wrong
from otel_agent_replay.gate.stated import (
    AtMostOnce,
    Budget,
    Citation,
    Expected,
    Invariant,
    ObjectId,
    Only,
    Order,
    Query,
    Refusal,
    Rule,
    Spec,
)
from otel_agent_replay.payload.canonical import canonical_json

_CHECKED = ("allowed", "forbidden", "terminal", "failed")


def invariants_of(document: CaseDocument) -> list[Invariant]:
    """Return the invariants in the order of the schema. Raises ConfigurationError for two of the same name."""
    found = list(_stated(document))
    if document.section("effects").get("at_most_once", bool(found)):
        found.append(Invariant("no effect twice", Rule.AT_MOST_ONCE, AtMostOnce(), given=True))
    seen: dict[str, Invariant] = {}
    for one in found:
        if one.name in seen:
            raise document.wrong(f"two invariants are called {one.name!r}: give one of them another `name`")
        seen[one.name] = one
    return found


def _stated(document: CaseDocument) -> Iterator[Invariant]:
    expect = document.section("expect")
    changes = Transitions.of(document.section("transitions"))
    for rule in (Rule.OUTCOME, Rule.ERROR, Rule.RESULT, Rule.FINAL_STATE):
        if rule.value in expect:
            given = expect[rule.value]
            name = f"{rule} {given}" if isinstance(given, str) else rule.value
            yield Invariant(name, rule, Expected(given, changes), given=given)
    if any(key in document.section("transitions") for key in _CHECKED):
        yield Invariant("transitions", Rule.TRANSITIONS, changes, given=document.section("transitions"))
    for rule, spec_of in _LISTS.items():
        for given in expect.get(rule.value, ()):
            yield _listed(rule, given, spec_of(document, given))
    for rule, plural in ((Rule.ORDER, Order), (Rule.ONLY, Only)):
        if rule.value in expect:
            given = expect[rule.value]
            yield Invariant(rule.value, rule, plural([_pattern(document, one) for one in given]), given=given)
    refusal = expect.get("must_refuse", False)
    if refusal is not False:
        says = _regular(document, refusal.get("says", "")) if isinstance(refusal, Mapping) else ""
        yield Invariant("must_refuse", Rule.MUST_REFUSE, Refusal(says), given=refusal)
    for measure, most in expect.get("budget", {}).items():
        ceiling = duration_ns(most) / 1e9 if measure == "seconds" else most
        yield Invariant(f"budget {measure}", Rule.BUDGET, Budget(measure, ceiling), given={measure: most})


def _listed(rule: Rule, given: Any, spec: Spec) -> Invariant:
    if not isinstance(given, Mapping):
        return Invariant(f"{rule} {_subject(given)}", rule, spec, given=given)
    said = {key: value for key, value in given.items() if key not in ("name", "why")}
    name = given.get("name") or f"{rule} {_subject(said)}"
    return Invariant(name, rule, spec, given.get("why", ""), given)


def _subject(given: Any) -> str:
    """Return what an invariant is about, in a few words: the call and what is asked of it, a source, a query."""
    if isinstance(given, str):
        return given
    if "query" in given:
        return " ".join(str(given["query"]).split())
    words = []
    for key, value in given.items():
        text = value if isinstance(value, str) else canonical_json(value).decode("utf-8", "replace")
        words.append(f"{key} {text}")
    return " ".join(words)


def _pattern(document: CaseDocument, given: str | Mapping[str, Any]) -> CallPattern:
    pattern = CallPattern.of(given)
    wrong = operators_wrong(pattern.arguments) or operators_wrong(
        given.get("result") if not isinstance(given, str) else None
    )
    if wrong:
        raise document.wrong(f"{pattern.label}: {wrong}")
    if pattern.at_most is not None and pattern.at_most < pattern.at_least:
        raise document.wrong(f"{pattern.label}: at most {pattern.at_most} and at least {pattern.at_least} times")
    return pattern


def _object_id(document: CaseDocument, given: Mapping[str, Any]) -> ObjectId:
    return ObjectId(_pattern(document, given["call"]), given["path"], given.get("equals"), given.get("same_as", ""))


def _citation(_document: CaseDocument, given: str | Mapping[str, Any]) -> Citation:
    return Citation(given) if isinstance(given, str) else Citation(given["source"], given.get("retrieved", False))


def _regular(document: CaseDocument, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise document.wrong(f"must_refuse.says: {text!r} is no regular expression: {error}") from error
    return text


_LISTS: Mapping[Rule, Callable[[CaseDocument, Any], Spec]] = {
    Rule.MUST_CALL: _pattern,
    Rule.MUST_NOT_CALL: _pattern,
    Rule.AT_MOST_ONCE: lambda document, given: AtMostOnce(_pattern(document, given)),
    Rule.OBJECT_ID: _object_id,
    Rule.MUST_CITE: _citation,
    Rule.SQL: lambda _document, given: Query(given["query"]),
}
