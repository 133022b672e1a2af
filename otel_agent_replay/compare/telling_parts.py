"""The parts of a value by their digests: how a prompt is told to carry what an earlier step answered. Pure.

A part is a whole value, one of its members, or a text in it. Two spellings of one part have one digest: JSON inside of
a text counts as the value that it says, white space as one blank, a number as its digits. What is too short to tell
anything (`true`, `12`, `ok`) is no part of its own, though it counts in the digest of what holds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

WORK = 20_000
"""Values of one payload whose parts are listed, at most."""

_TELLING = 4  # characters of a text or a number
_DEEP = 60  # levels
_JSON_TEXT = 1_000_000  # characters of a text that is read as JSON


@dataclass(frozen=True, slots=True)
class TellingPart:
    """One part: its place in the value (`items[2].id`), its digest, and its text where it is one ("" else)."""

    path: str
    digest: bytes
    text: str
    size: int


def telling_parts(value: Any, path: str = "") -> Sequence[TellingPart]:
    """Return the parts of `value` that can tell where they came from, outermost last.

    >>> [part.path for part in telling_parts({"order": "bravo", "n": 1, "raw": '["bravo"]'})]
    ['order', 'raw[0]', 'raw', '']
    """
    lister = _Lister()
    lister.digest(value, path, 0)
    return lister.found


class _Lister:
    def __init__(self) -> None:
        self.found: list[TellingPart] = []
        self._left = WORK

    def digest(self, value: Any, path: str, depth: int) -> bytes:
        """Return the digest of `value`, having listed its telling parts."""
        self._left -= 1
        if depth > _DEEP or self._left < 0:
            return b"?"
        if isinstance(value, (dict, list, tuple)):
            members = [self.digest(inner, where, depth + 1) for where, inner in _members(value, path)]
            names = sorted(value) if isinstance(value, dict) else ()
            digest = _hash("{" if isinstance(value, dict) else "[", *names, *members)
            if value:
                self.found.append(TellingPart(path, digest, "", len(members)))
            return digest
        if isinstance(value, str):
            inner = _as_json(value)
            if inner is not None:
                return self.digest(inner, path, depth + 1)
            text = " ".join(value.split())
        else:
            text = "" if value is None or isinstance(value, bool) else str(value)
        digest = _hash("text", text) if text else _hash(type(value).__name__, str(value))
        if len(text) >= _TELLING:
            self.found.append(TellingPart(path, digest, text, len(text)))
        return digest


def _members(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            yield (f"{path}.{name}" if path else str(name)), value[name]
    else:
        for number, inner in enumerate(value):
            yield f"{path}[{number}]", inner


def _as_json(text: str) -> Any:
    """Return the object or array that a text spells, None where it spells none."""
    if text[:1] not in ("{", "[") or len(text) > _JSON_TEXT:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, (dict, list)) and found else None


def _hash(*parts: str | bytes) -> bytes:
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        content.update(len(data).to_bytes(8, "big") + data)
    return content.digest()
