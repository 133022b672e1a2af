"""Recorded text made harmless for a terminal and for Markdown: prompts are hostile until shown otherwise.

Nothing is dropped: what cannot be shown as it is, is shown as an escape; what is shortened says by how much.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, escape sequences among them
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"  # direction, joining, no character
    "\ud800-\udfff\U000e0000-\U000e007f]"  # lone surrogates, tags
)
_MARKDOWN = re.compile(r"([\\`*_\[\]()#+\-!|~>@.:])")


def visible(text: str, *, keep_lines: bool = False) -> str:
    r"""Return `text` with control, direction and invisible characters as escapes (`\x1b`, `\u202e`).

    With `keep_lines` newlines and tabs stay.

    >>> visible("red \x1b[31m")
    'red \\x1b[31m'
    """

    def escape(match: re.Match[str]) -> str:
        character = match.group()
        if keep_lines and character in "\n\t":
            return character
        return _SHORT.get(character) or _numbered(ord(character))

    return _HOSTILE.sub(escape, text)


def _numbered(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shortened(text: str, limit: int) -> str:
    """Return `text`, or its beginning and how many characters were left out."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def value_text(value: Any, limit: int = 300) -> str:
    """Return a value of a difference on one line, harmless and shortened; `(nothing)` where there is none."""
    from otel_agent_replay.payload.difference import MISSING  # every command shows text, few of them a difference

    if value is MISSING:
        return "(nothing)"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return visible(shortened(text, limit))


def markdown(text: str) -> str:
    """Return text that Markdown and HTML show as it is: no link, image, mention, heading or tag comes of it."""
    escaped = _MARKDOWN.sub(r"\\\1", html.escape(visible(text), quote=False))
    # A comment splits what a renderer would otherwise take for a mention or a reference after unescaping.
    return escaped.replace("\\@", "\\@<!-- -->").replace("\\#", "\\#<!-- -->")


def markdown_code(text: str) -> str:
    """Return text as an HTML code element, which nothing inside can end."""
    return f"<code>{_entities(visible(text))}</code>"


def _entities(text: str) -> str:
    """Write as entities what Markdown would still read inside an element, blank lines among it."""
    escaped = html.escape(text, quote=True)
    for character in "`*_[]()!|~@:.\\":
        escaped = escaped.replace(character, f"&#{ord(character)};")
    return escaped.replace("\n", "&#10;")
