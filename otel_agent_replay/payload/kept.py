"""The stand-in for what a recording could not keep whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KeptAsText:
    """Stands for a value that could not be kept: its class, a bounded text of it, and its fields where known.

    `type` is `module:qualified.name`. The exchange that holds it said so at record time (`round_trips` False).
    """

    type: str
    text: str
    fields: Any = None

    def __getattr__(self, name: str) -> Any:
        # Told here because this is where an agent's code would stumble over it.
        raise AttributeError(f"the recording kept only a text of this {self.type}, so it has no attribute {name!r}")
