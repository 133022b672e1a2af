"""Text that arrives in fragments."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.json_text import compact


class TextPieces:
    """Fragments of one text. None adds nothing, as providers mean it."""

    __slots__ = ("_pieces", "mistyped")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.mistyped = False

    def add(self, fragment: Any) -> None:
        """Take a fragment; what is neither a string nor None is remembered as `mistyped`."""
        if isinstance(fragment, str):
            self._pieces.append(fragment)
        elif fragment is not None:
            self.add_value(fragment)

    def add_value(self, value: Any) -> None:
        """Take a JSON value where the protocol wants text."""
        self._pieces.append(compact(value))
        self.mistyped = True

    def joined(self) -> str:
        """All fragments in order."""
        return "".join(self._pieces)


def join(pieces: TextPieces, what: str, problems: list[str]) -> str:
    """The joined text; says in `problems` when it came as something else than text."""
    if pieces.mistyped:
        problems.append(f"{what} came as a JSON value, not as text")
    return pieces.joined()
