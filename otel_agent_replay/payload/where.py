"""Places inside a value, for notes and errors: `kwargs.messages[3].content`."""

from __future__ import annotations

import re

# A linked list, root first made, so that going one level down costs one tuple and text is made only when needed.
Where = tuple["Where", "str | int"] | None

_NAME = re.compile(r"[^\W\d][\w-]*\Z")


def show(where: Where) -> str:
    """Return the path as text: names joined by dots, positions in brackets, other keys quoted in brackets."""
    parts: list[str] = []
    while where is not None:
        where, part = where
        parts.append(step(part))
    return "".join(reversed(parts)).removeprefix(".")


def step(part: str | int) -> str:
    """Return one part of a path as text: `.name`, `[3]` or `['odd key']`."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _NAME.match(part) else f"[{part!r}]"
