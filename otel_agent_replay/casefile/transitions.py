"""Changes of state: which are right, what the states are, and what of a list of states is wrong. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ANY_STATE = "*"


@dataclass(frozen=True, slots=True)
class Transitions:
    """Which changes of state are right. Changes are pairs; `*` is any state. None: all are allowed."""

    state: str = ""
    start: str = ""
    allowed: Sequence[tuple[str, str]] | None = None
    forbidden: Sequence[tuple[str, str]] = ()
    terminal: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Transitions:
        """Return those of a section `transitions` that fits the schema."""
        allowed = given.get("allowed")
        return cls(
            given.get("state", ""),
            given.get("start", ""),
            None if allowed is None else [_change(one) for one in allowed],
            [_change(one) for one in given.get("forbidden", ())],
            frozenset(given.get("terminal", ())),
            frozenset(given.get("failed", ())),
        )

    def state_of(self, name: str, state: Any) -> str | None:
        """Return the state that a checkpoint of this name tells, None where it tells none."""
        if not self.state:
            return name
        found: Any = state
        for part in self.state.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return None if found is None else str(found)

    def wrong_change(self, before: str, after: str) -> str:
        """Return what is wrong with going from `before` to `after`: "forbidden", "not allowed" or ""."""
        if not before or before == after:
            return ""
        if any(_fits((before, after), one) for one in self.forbidden):
            return "forbidden"
        if self.allowed is not None and not any(_fits((before, after), one) for one in self.allowed):
            return "not allowed"
        return ""


def _fits(change: tuple[str, str], pattern: tuple[str, str]) -> bool:
    return all(wanted in (ANY_STATE, is_now) for is_now, wanted in zip(change, pattern, strict=True))


def _change(text: str) -> tuple[str, str]:
    before, _, after = text.partition(" -> ")
    return before, after
