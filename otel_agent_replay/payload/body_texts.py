"""Every text that a body says, and the same body with its texts replaced by others of the same length.

JSON is read by its values and keys, also JSON in a text; an event stream event by event and along the texts that its
events spell out piece by piece; a form by its fields; anything else as text. A new text is written as the old one was,
escape by escape, so that a body keeps its length, and where it was cut into chunks. Must know no rule.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import NamedTuple

from otel_agent_replay.model import STREAM_TYPES
from otel_agent_replay.payload import stream_text
from otel_agent_replay.payload.json_text import unescaped, walk

Replace = Callable[[str], str]
"""Returns a text of the same length: characters, and bytes in UTF-8."""

_FORM = "application/x-www-form-urlencoded"
_FIELD = re.compile(r"([^=&]+)=([^&]*)")
_EVENTS = re.compile(r"(?:data|event|id|:)[^\r\n]*[\r\n]")
_DEEPEST = 6  # JSON inside text inside JSON ...


class Said(NamedTuple):
    """One text of a body; `name` is the field it is the value of, "" where it is none."""

    name: str
    text: str


class _Leaf(NamedTuple):
    """A text where it stands: the range of its raw form, and what it means."""

    name: str
    start: int
    end: int
    meaning: str


def texts_of(data: bytes, media_type: str) -> Iterator[Said]:
    """Yield every text of a body, those that a stream spells out among them."""
    text = _text(data)
    if text is None:
        return
    form = _form_of(text, media_type)
    for spelled in _spelled(text, form):
        yield from _said(spelled.meaning, "")
    for leaf in _leaves(text, form):
        yield from _said(leaf.meaning, leaf.name)


def replaced_body(data: bytes, media_type: str, replace: Replace) -> bytes:
    """Return the body with every text replaced: the same object where none changes, else as many bytes."""
    text = _text(data)
    if text is None:
        return data
    form = _form_of(text, media_type)
    edits: dict[int, tuple[int, str]] = {}
    pieces: set[int] = set()
    for spelled in _spelled(text, form):
        pieces.update(position for position, _ in spelled.raws)
        _respell(spelled, replaced_text(spelled.meaning, replace), text, edits)
    for leaf in _leaves(text, form):
        if leaf.start not in pieces:  # what is a part of a longer text was replaced with that
            new = replaced_text(leaf.meaning, replace)
            if new != leaf.meaning:
                write = rewritten_url if form == "form" else rewritten
                edits[leaf.start] = leaf.end, write(text[leaf.start : leaf.end], leaf.meaning, new)
    if not edits:
        return data
    out: list[str] = []
    reached = 0
    for start, (end, new) in sorted(edits.items()):
        out += (text[reached:start], new)
        reached = end
    return ("".join(out) + text[reached:]).encode("utf-8", "surrogateescape")


def replaced_text(text: str, replace: Replace, depth: int = 0) -> str:
    """Return a text with what it says replaced; JSON in it is read by its values."""
    if depth < _DEEPEST and _is_json(text):
        out: list[str] = []
        reached = 0
        for leaf in _json_leaves(text):
            new = replaced_text(leaf.meaning, replace, depth + 1)
            if new != leaf.meaning:
                out += (text[reached : leaf.start], rewritten(text[leaf.start : leaf.end], leaf.meaning, new))
                reached = leaf.end
        return "".join(out) + text[reached:] if out else text
    return replace(text)


def rewritten(raw: str, old: str, new: str) -> str:
    r"""Return `raw`, which is `old` inside a JSON string, as the same way of writing `new`.

    >>> rewritten("M\\u00fcller", "Müller", "Xöwqab")
    'X\\u00f6wqab'
    """
    if raw == old:
        return new
    pieces = [
        piece for match in _JSON_PIECE.finditer(raw) for piece in (match[0] if match[0][0] != "\\" else [match[0]])
    ]
    return "".join(
        piece if becomes == is_now else _escaped_alike(piece, is_now, becomes)
        for piece, is_now, becomes in zip(pieces, old, new, strict=True)
    )


def rewritten_url(raw: str, old: str, new: str) -> str:
    """Return `raw`, which is `old` inside a URL or a form, as the same way of writing `new`."""
    if raw == old:
        return new
    out: list[str] = []
    at = 0
    for is_now, becomes in zip(old, new, strict=True):
        quoted = raw[at : at + 1] == "%"
        piece = raw[at : at + (3 * len(is_now.encode("utf-8", "surrogatepass")) if quoted else 1)]
        at += len(piece)
        if becomes != is_now:
            small = piece != piece.upper()
            piece = "".join(f"%{byte:02{'x' if small else 'X'}}" for byte in becomes.encode()) if quoted else becomes
        out.append(piece)
    return "".join(out)


_JSON_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL
)


def _escaped_alike(piece: str, old: str, new: str) -> str:
    if piece == old or len(piece) != 6 or ord(new) > 0xFFFF:
        return new
    written = f"{ord(new):04x}"
    return piece[:2] + (written.upper() if piece[2:] == piece[2:].upper() else written)


# --- where texts stand ------------------------------------------------------------------------------------------


def _text(data: bytes) -> str | None:
    """Return a body as text; None for what is none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # A stream may be cut inside a character; other bytes hold nothing that is read as text.
        return data.decode("utf-8", "surrogateescape") if data[:1] in b"{[d:e" else None


def _form_of(text: str, media_type: str) -> str:
    essence = media_type.partition(";")[0].strip().lower()
    if essence in STREAM_TYPES or _EVENTS.match(text):
        return "stream"
    if essence == _FORM:
        return "form"
    if stream_text.is_array_stream(text[:256].encode("utf-8", "surrogateescape")):
        return "array"
    return "json" if text.lstrip()[:1] in ("{", "[", '"') else "text"


def _spelled(text: str, form: str) -> list[stream_text.Spelled]:
    if form == "stream":
        return stream_text.spelled(text)
    return stream_text.spelled(text, stream_text.array_elements(text)) if form == "array" else []


def _leaves(text: str, form: str) -> Iterator[_Leaf]:
    if form == "stream":
        for start, end in stream_text.data_lines(text):
            yield from _shifted(text[start:end], start)
    elif form == "form":
        for field in _FIELD.finditer(text):
            name, value = (urllib.parse.unquote_plus(part) for part in field.groups())
            yield _Leaf(name, field.start(2), field.end(2), value)
    elif form in ("json", "array"):
        yield from _json_leaves(text)
    else:
        yield _Leaf("", 0, len(text), text)


def _shifted(line: str, start: int) -> Iterator[_Leaf]:
    if line[:1] not in ("{", "[", '"'):
        yield _Leaf("", start, start + len(line), line)
        return
    for leaf in _json_leaves(line):
        yield leaf._replace(start=start + leaf.start, end=start + leaf.end)


def _json_leaves(text: str) -> Iterator[_Leaf]:
    for found in walk(text):
        if found.kind != "container":
            name = next((str(part) for part in reversed(found.path) if isinstance(part, str)), "")
            raw = text[found.start : found.end]
            yield _Leaf("" if found.kind == "key" else name, found.start, found.end, unescaped(raw))


def _respell(spelled: stream_text.Spelled, new: str, text: str, edits: dict[int, tuple[int, str]]) -> None:
    for place, (is_now, becomes) in enumerate(zip(spelled.meaning, new, strict=True)):
        if is_now != becomes:
            for low, high in spelled.ranges(place, place + 1):
                edits[low] = high, rewritten(text[low:high], is_now, becomes)


def _said(text: str, name: str, depth: int = 0) -> Iterator[Said]:
    if depth < _DEEPEST and _is_json(text):
        for leaf in _json_leaves(text):
            yield from _said(leaf.meaning, leaf.name, depth + 1)
    else:
        yield Said(name, text)


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
