"""Redaction rules as data: what a user writes, checked and compiled.

Owns the form of a rule and the language of its paths; applying rules is `rule_hits`' business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.errors import ConfigurationError

ACTIONS = ("drop", "mask", "hash")

PRESETS: Mapping[str, str] = {
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "phone": r"(?<![\w.])\+\d{1,3}[ ./-]?(?:\(\d{1,4}\)[ ./-]?)?\d{2,4}(?:[ ./-]?\d{2,4}){1,4}(?!\w)",
    "payment_card": r"(?<![\w.-])(?:\d{4}[ -]?){3}\d{1,7}(?![\w-])",
    "iban": r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?!\w)",
    "us_ssn": r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])",
    "ip_address": r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])",
}
"""Patterns of personal data for `preset = "email"` and the like. None is on unless it is asked for."""


@dataclass(frozen=True)
class Rule:
    r"""One rule: an action and exactly one of `path`, `key` and `pattern`.

    `path` names values in JSON and in typed values: `messages[*].content.ssn`, `kwargs.customer.email`; `*` is any
    name, `[*]` any position, `**` any number of steps. `key` is a regular expression searched in the names of
    fields, headers, query parameters and variables. `pattern` is one searched in text.

    Actions: `mask` (stars, of the same length), `hash` (a keyed hash, so that equal values stay equal), `drop` (a
    header is left out, a JSON value becomes null, matched text goes).
    """

    name: str
    action: str
    path: str | None = None
    key: str | None = None
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ConfigurationError(
                f"redaction rule {self.name!r}: action {self.action!r} is none of {', '.join(ACTIONS)}"
            )
        given = [kind for kind in ("path", "key", "pattern") if getattr(self, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ConfigurationError(f"redaction rule {self.name!r} needs one of path, key, pattern; it has {found}")
        kind = given[0]
        text = getattr(self, kind)
        if not isinstance(text, str) or not text:
            raise ConfigurationError(f"redaction rule {self.name!r}: {kind} {text!r} is no text")
        if kind == "path":
            path_steps(text, self.name)
        else:
            _compiled(text, self.name, kind)


def rules_from(tables: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Return rules from tables as TOML or JSON gives them.

    Keys: `action`, one of `path`, `key`, `pattern` and `preset`, and an optional `name`. Raises ConfigurationError
    naming the rule.
    """
    rules = []
    for number, table in enumerate(tables, 1):
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"redaction rule {number} is no table: {table!r}")
        fields = dict(table)
        name = str(fields.setdefault("name", f"#{number}"))
        unknown = sorted(set(fields) - {"name", "action", "path", "key", "pattern", "preset"})
        if unknown:
            raise ConfigurationError(f"redaction rule {name!r} has unknown keys: {', '.join(unknown)}")
        if "action" not in fields:
            raise ConfigurationError(f"redaction rule {name!r} has no action ({', '.join(ACTIONS)})")
        preset = fields.pop("preset", None)
        if preset is not None:
            if preset not in PRESETS:
                raise ConfigurationError(
                    f"redaction rule {name!r}: preset {preset!r} is none of {', '.join(sorted(PRESETS))}"
                )
            if "pattern" in fields:
                raise ConfigurationError(f"redaction rule {name!r} has a pattern and a preset")
            fields["pattern"] = PRESETS[preset]
        rules.append(Rule(**{**fields, "name": name}))
    return rules


def _compiled(text: str, name: str, kind: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(
            f"redaction rule {name!r}: {kind} {text!r} is no regular expression: {error}"
        ) from error


# --- paths ----------------------------------------------------------------------------------------------------

_STEP = re.compile(r"\.?(\*\*)|\.?(\*)|\[(\*)\]|\[(\d+)\]|\[(['\"])(.*?)\5\]|\.?([^.\[\]*]+)")
ANY_STEPS, ANY_NAME, ANY_POSITION = object(), object(), object()
Steps = tuple[object, ...]


def path_steps(path: str, name: str = "") -> Steps:
    """Return the steps of a path rule. Raises ConfigurationError for what is no path."""
    steps: list[object] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ConfigurationError(f"redaction rule {name!r}: path {path!r} is not understood at {path[position:]!r}")
        position = match.end()
        steps.append(_step_of(match))
    if not steps:
        raise ConfigurationError(f"redaction rule {name!r}: path {path!r} names nothing")
    return tuple(steps)


def _step_of(match: re.Match[str]) -> object:
    if match[1]:
        return ANY_STEPS
    if match[2]:
        return ANY_NAME
    if match[3]:
        return ANY_POSITION
    if match[4]:
        return int(match[4])
    return match[6] if match[5] else match[7]


def fits(steps: Steps, path: tuple[str | int, ...]) -> bool:
    """Return whether a value at `path` is what the steps name."""
    if not steps:
        return not path
    first = steps[0]
    if first is ANY_STEPS:
        return any(fits(steps[1:], path[skipped:]) for skipped in range(len(path) + 1))
    if not path:
        return False
    part = path[0]
    if first is ANY_NAME:
        same = isinstance(part, str)
    elif first is ANY_POSITION:
        same = isinstance(part, int)
    else:
        same = first == part
    return same and fits(steps[1:], path[1:])
