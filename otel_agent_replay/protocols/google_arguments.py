"""Arguments of Gemini's function calls that stream: values at JSON paths, put together to one object.

    {"partialArgs": [{"jsonPath": "$.items[0].name", "stringValue": "ap", "willContinue": true}]}

A string comes in pieces while `willContinue` says so; any other value comes whole. The wire has no text of the whole,
so the arguments are written anew.
"""

from __future__ import annotations

import re
from typing import Any, Final

from otel_agent_replay.patterns import late
from otel_agent_replay.protocols.json_text import as_objects, compact

_PART: Final = late(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_MOST_ELEMENTS: Final = 10_000
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialArguments:
    """The arguments of one call while they arrive."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] = {}
        self._open: dict[str, bool] = {}

    def add(self, partial: Any, problems: list[str]) -> None:
        """Take the `partialArgs` of one event."""
        for piece in as_objects(partial):
            path = str(piece.get("jsonPath"))
            kind = next((name for name in _VALUES if name in piece), None)
            parts = _parts(path)
            if kind is None or not parts:
                problems.append(f"a partial argument cannot be placed: {path!r}")
                continue
            value = None if kind == "nullValue" else piece[kind]
            if self._open.get(path) and isinstance(value, str):
                before = _get(self._whole, parts)
                value = before + value if isinstance(before, str) else value
            self._open[path] = bool(piece.get("willContinue"))
            if not _set(self._whole, parts, value):
                problems.append(f"a partial argument does not fit into what came before: {path!r}")

    def text(self) -> str:
        """The arguments as JSON text."""
        return compact(self._whole)


def _parts(path: str) -> list[str | int]:
    """The parts of a JSON path below `$`; none where it is no such path."""
    parts: list[str | int] = []
    at = 1
    while at < len(path):
        found = _PART.match(path, at)
        if found is None:
            return []
        name, index, single, double = found.groups()
        parts.append(int(index) if index is not None else re.sub(r"\\(.)", r"\1", name or single or double or ""))
        at = found.end()
    return parts if path[:1] == "$" else []


def _get(inside: Any, parts: list[str | int]) -> Any:
    try:
        for part in parts:
            inside = inside[part]
    except (KeyError, IndexError, TypeError):
        return None
    return inside


def _set(inside: Any, parts: list[str | int], value: Any) -> bool:
    """Put `value` where `parts` lead; False when what is there is of another kind."""
    for number, part in enumerate(parts):
        if isinstance(part, int):
            if not isinstance(inside, list) or part > _MOST_ELEMENTS:
                return False
            inside.extend([None] * (part + 1 - len(inside)))
        elif not isinstance(inside, dict):
            return False
        last = number + 1 == len(parts)
        known = None if last else (inside[part] if isinstance(part, int) else inside.get(part))
        if last:
            inside[part] = value
        elif known is None:
            inside[part] = known = [] if isinstance(parts[number + 1], int) else {}
        inside = known
    return True
