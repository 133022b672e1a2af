"""Redaction that puts made-up values of the same length in the place of known ones.

Owns nothing of its own but that: bodies, headers, URLs and attributes pass here as they do at capture, and credentials
are masked as always. What it writes keeps its length, so that chunks end where they did.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Sequence

from otel_agent_replay.payload.body_texts import Replace, replaced_body, replaced_text, rewritten_url
from otel_agent_replay.payload.masks import cut, cuts_of
from otel_agent_replay.payload.redaction import Redaction

_QUERY_PART = re.compile(r"[^/?&=#;]+")


class SyntheticRedaction(Redaction):
    """Replaces what `replace` knows. Everything else is as the built-in redaction has it."""

    def __init__(self, replace: Replace) -> None:
        super().__init__()
        self._replace = replace

    def body(self, data: bytes, media_type: str) -> bytes:
        """Return a decoded body with the known values replaced: the same object when none is in it."""
        return replaced_body(super().body(data, media_type), media_type, self._replace)

    def chunks(self, chunks: Sequence[bytes], media_type: str) -> list[bytes]:
        """Return as many chunks, together what `body` makes of the whole."""
        clean = super().chunks(chunks, media_type)
        whole = b"".join(clean)
        replaced = replaced_body(whole, media_type, self._replace)
        return clean if replaced is whole else cut(replaced, cuts_of(clean))

    def value_bytes(self, encoded: bytes) -> bytes:
        """Return typed-codec bytes with the known values replaced."""
        return replaced_body(super().value_bytes(encoded), "application/json", self._replace)

    def text(self, text: str) -> str:
        """Return `text` with the known values replaced: the same object when none is in it."""
        clean = super().text(text)
        replaced = replaced_text(clean, self._replace)
        return clean if replaced == clean else replaced

    def url(self, url: str) -> str:
        """Return `url` with the known values in its path and its query replaced."""
        clean = super().url(url)
        scheme, border, rest = clean.partition("://")
        host, slash, path = rest.partition("/")
        if not border:
            return clean
        return scheme + border + host + slash + _QUERY_PART.sub(lambda match: self._quoted(match[0]), path)

    def _quoted(self, part: str) -> str:
        meaning = urllib.parse.unquote_plus(part)
        replaced = replaced_text(meaning, self._replace)
        return part if replaced == meaning else rewritten_url(part, meaning, replaced)

    def headers(self, items: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the headers that may be stored, in order, with the known values replaced."""
        return tuple((name, self._header(value)) for name, value in super().headers(items))

    def _header(self, value: str) -> str:
        return self.url(value) if "://" in value and " " not in value else self.text(value)
