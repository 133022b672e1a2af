"""Text that UTF-8 cannot hold (lone surrogates), for messages that are UTF-8 only."""

from __future__ import annotations

import re

ESCAPED = "\0"
"""How a text begins that is escaped."""
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")


def text_to_wire(text: str) -> str:
    """Return `text`, or where UTF-8 cannot hold it its escaped form, marked by a leading NUL."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _escaped(text)
    return _escaped(text) if text[:1] == ESCAPED else text


def _escaped(text: str) -> str:
    return ESCAPED + text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()


def whole_text(text: str) -> str:
    """Return `text` without surrogates, for what every reader must be able to take: a lone one becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_from_wire(stored: str) -> str:
    """Return the text that `text_to_wire` was given."""
    if stored[:1] != ESCAPED:
        return stored
    # backslashreplace writes a lone surrogate, and nothing else, as \udXXX; backslashes were doubled before it.
    return _ESCAPE.sub(lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), stored[1:])
