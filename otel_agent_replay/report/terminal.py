"""The terminal: where lines go, and how they are styled.

Lines are never cut to the width of a window and never read as markup: recorded text reaches rich as plain text
with its control characters already shown as escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console
from rich.text import Text

from otel_agent_replay.report.safe_text import visible

QUIET = "dim"
STRONG = "bold"
BAD = "bold red"
GOOD = "green"
SIDE_A = "blue"
SIDE_B = "dark_orange3"
CHANGED = "magenta"


def print_lines(lines: Iterable[Text], stream: IO[str] | None = None) -> None:
    """Print lines to `stream` (standard output), in colour where it is a terminal that wants it."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        console.print(line, soft_wrap=True, no_wrap=True, crop=False, overflow="ignore")


def line(*parts: str | tuple[str, str]) -> Text:
    """Return one line of parts, each text or (text, style); all of it is made harmless first."""
    result = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        result.append(visible(text), style)
    return result


def plain_text(lines: Iterable[Text]) -> str:
    """Return the lines without styles."""
    return "\n".join(item.plain for item in lines)
