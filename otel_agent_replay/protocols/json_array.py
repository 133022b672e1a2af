"""A stream that is one JSON array, its elements coming one by one: Google's form where no events are asked for.

Only the borders of elements are looked for while bytes arrive; each element is then parsed by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from otel_agent_replay.protocols.json_text import parse
from otel_agent_replay.protocols.stream import NamedObject, Reader

# What can change where we are. Text is told apart from bytes that only look like these by what is open.
_MARK: Final = re.compile(rb'[\[\]{}"\\]')


class JsonArray:
    """The objects of an array; see `ObjectStream`. `done` says that its closing bracket came."""

    def __init__(self, read: Reader | None = None) -> None:
        self.done = False
        self.problems: list[str] = []
        self._read = read
        self._depth = 0
        self._in_text = False
        self._escaped = False
        self._element: list[bytes] = []
        self._number = 0

    def feed(self, chunk: bytes) -> Iterator[NamedObject]:
        """See `ObjectStream`."""
        start = at = 0
        if self._escaped and chunk:
            self._escaped, at = False, 1
        while (found := _MARK.search(chunk, at)) is not None:
            mark, at = found.group(), found.end()
            if self._in_text:
                if mark == b"\\":
                    self._escaped = at == len(chunk)
                    at += 1
                elif mark == b'"':
                    self._in_text = False
            elif mark == b'"':
                self._in_text = True
            elif mark in b"[{":
                if self._depth == 1:
                    start = found.start()
                self._depth += 1
            elif mark in b"]}":
                self._depth -= 1
                if self._depth == 1:
                    yield from self._complete(chunk[start:at])
                elif self._depth == 0:
                    self.done = True
        if self._depth > 1:
            self._element.append(chunk[start:])

    def close(self) -> Iterator[NamedObject]:
        """See `ObjectStream`."""
        rest = b"".join(self._element)
        if rest:
            self.problems.append(f"element {self._number + 1} is cut: {rest[-60:]!r}")
        return iter(())

    def _complete(self, end: bytes) -> Iterator[NamedObject]:
        data = b"".join((*self._element, end))
        self._element = []
        self._number += 1
        value = parse(data)
        if not isinstance(value, dict):
            self.problems.append(f"element {self._number} is no JSON object: {data[:60]!r}")
        elif self._read is None:
            yield "message", value
        else:
            yield "message", self._read(data.decode("utf-8", "surrogatepass"), value)
