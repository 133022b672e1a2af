"""A stream that is one JSON array, its elements coming one by one: Google's form where no events are asked for.

Only the borders of elements are looked for while bytes arrive; each element is then parsed by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from otel_agent_replay.patterns import late
from otel_agent_replay.protocols.json_text import parse
from otel_agent_replay.protocols.stream import NamedObject, Reader

# A whole text, or what opens and closes; a quote alone opens a text that this piece does not end.
_TOKEN: Final = late(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}"]', re.DOTALL)
_REST_OF_TEXT: Final = late(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ESCAPES_AT_END: Final = late(rb"\\+\Z")


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
        start = 0
        for found in _TOKEN.finditer(chunk, self._after_text(chunk)):
            mark = found.group()
            if mark in (b"{", b"["):
                if self._depth == 1:
                    start = found.start()
                self._depth += 1
            elif mark in (b"}", b"]"):
                self._depth -= 1
                if self._depth == 1:
                    yield from self._complete(chunk[start : found.end()])
                elif self._depth == 0:
                    self.done = True
            elif mark == b'"':
                self._in_text = True
                self._escaped = _ends_in_escape(chunk[found.end() :])
                break
        if self._depth > 1:
            self._element.append(chunk[start:])

    def _after_text(self, chunk: bytes) -> int:
        """Where the text that an earlier piece left open ends, the end of `chunk` when it goes on."""
        if not self._in_text or not chunk:
            return 0
        begin, self._escaped = int(self._escaped), False
        found = _REST_OF_TEXT.match(chunk, begin)
        if found is None:
            self._escaped = _ends_in_escape(chunk[begin:])
            return len(chunk)
        self._in_text = False
        return found.end()

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


def _ends_in_escape(text: bytes) -> bool:
    """Whether the last byte escapes the next one, which has not come yet."""
    found = _ESCAPES_AT_END.search(text)
    return found is not None and len(found.group()) % 2 == 1
