"""Which calls are meant: a kind, a name, arguments by path, a result, an outcome. Pure.

A question about a call whose bytes were not kept has no answer: then `fits` is None.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.casefile.holding import holds
from otel_agent_replay.gate.facts import MISSING, UNREAD, Made

KINDS = ("tool", "http", "model", "retrieval", "decision", "approval", "checkpoint", "asks")
"""The keys that name a call in `case.yaml`."""

_STEP = re.compile(r"\[(-?\d+)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class CallPattern:
    """What a call must be like to be meant. `kind` is one of KINDS, `name` may hold `*`.

    `at_least` and `at_most` (None: any number) are how often must_call wants it; `by` the argument paths that make two
    calls the same for at_most_once.
    """

    kind: str
    name: str
    arguments: Mapping[str, Any] | None = None
    result: Any = MISSING
    outcome: str = ""
    at_least: int = 1
    at_most: int | None = None
    by: Sequence[str] = ()

    @classmethod
    def of(cls, given: str | Mapping[str, Any]) -> CallPattern:
        """Return the pattern of a `call` that fits the schema; a text alone names a tool."""
        if isinstance(given, str):
            return cls("tool", given)
        kind = next(name for name in given if name in KINDS)
        times = given.get("times", {"at_least": 1})
        least, most = (times, times) if isinstance(times, int) else (times.get("at_least", 0), times.get("at_most"))
        return cls(
            kind,
            given[kind],
            given.get("arguments"),
            given.get("result", MISSING),
            given.get("outcome", ""),
            least,
            most,
            tuple(given.get("by", ())),
        )

    @property
    def label(self) -> str:
        """What names and reports call it."""
        return f"{self.kind} {self.name}"

    def fits(self, made: Made) -> bool | None:
        """Whether `made` is such a call; None where that cannot be known."""
        names = (made.name, made.also) if made.also else (made.name,)
        if made.kind != self.kind or not any(fnmatch.fnmatchcase(name, self.name) for name in names):
            return False
        if self.outcome and made.outcome != self.outcome:
            return None if made.outcome == "pending" else False
        answers = [self._arguments_fit(made), self._result_fits(made)]
        if False in answers:
            return False
        return None if None in answers else True

    def _arguments_fit(self, made: Made) -> bool | None:
        if not self.arguments:
            return True
        if made.arguments is UNREAD:
            return None
        return all(matches(at_path(made.arguments, path), wanted) for path, wanted in self.arguments.items())

    def _result_fits(self, made: Made) -> bool | None:
        if self.result is MISSING:
            return True
        return None if made.result is UNREAD else matches(made.result, self.result)


def at_path(value: Any, path: str) -> Any:
    """Return what lies at `path` (order.items[0].id) in a JSON value; MISSING where there is nothing.

    A member whose name is the whole path comes first.
    """
    if isinstance(value, Mapping) and path in value:
        return value[path]
    found = value
    for index, name in _STEP.findall(path):
        if index:
            number = int(index)
            within = isinstance(found, (list, tuple)) and -len(found) <= number < len(found)
            found = found[number] if within else MISSING
        else:
            found = found.get(name, MISSING) if isinstance(found, Mapping) else MISSING
        if found is MISSING:
            return MISSING
    return found


def matches(given: Any, wanted: Any) -> bool:
    """Whether a value is as wanted: equal, holding at least that, or as an operator says.

    >>> matches({"cents": 4900, "id": "17"}, {"cents": {"$above": 100}})
    True
    """
    if isinstance(wanted, Mapping) and wanted and all(str(key).startswith("$") for key in wanted):
        return all(_operator(given, str(key), value) for key, value in wanted.items())
    if given is MISSING:
        return False
    if isinstance(wanted, Mapping):
        inner = isinstance(given, Mapping)
        return inner and all(matches(given.get(key, MISSING), value) for key, value in wanted.items())
    if isinstance(wanted, bool) or isinstance(given, bool):
        return given is wanted
    return holds(given, wanted)


def _operator(given: Any, name: str, value: Any) -> bool:
    if name == "$not":
        return not matches(given, value)
    if given is MISSING:
        return False
    if name == "$in":
        return any(matches(given, one) for one in value)
    if name == "$matches":
        return isinstance(given, str) and re.search(value, given) is not None
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    return bool(number and (given > value if name == "$above" else given < value))


def operators_wrong(wanted: Any) -> str:
    """Return what is wrong with the operators in a value, "" where nothing is."""
    if isinstance(wanted, list):
        return next((wrong for one in wanted if (wrong := operators_wrong(one))), "")
    if not isinstance(wanted, Mapping):
        return ""
    for key, value in wanted.items():
        name = str(key)
        wrong = _operator_wrong(name, value) if name.startswith("$") else operators_wrong(value)
        if wrong:
            return wrong
    return ""


def _operator_wrong(name: str, value: Any) -> str:
    known = "$in, $matches, $above, $below, $not"
    if name == "$not":
        return operators_wrong(value)
    if name == "$in":
        return "" if isinstance(value, list) else f"$in takes a list, not {value!r}"
    if name == "$matches":
        try:
            re.compile(value)
        except (re.error, TypeError) as error:
            return f"$matches: {value!r} is no regular expression: {error}"
        return ""
    if name in ("$above", "$below"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return "" if number else f"{name} takes a number, not {value!r}"
    return f"unknown operator {name!r}; known: {known}"
