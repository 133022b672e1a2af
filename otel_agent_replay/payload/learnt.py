"""Secrets that were seen: looked for by their text, in every form in which a body may carry them.

Owns the forms: plain, escaped for JSON (once and twice), for a URL, for HTML, in base64 at each of its three
alignments, in hexadecimal.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator

SHORTEST = 6
"""Characters; shorter secrets would mask ordinary words."""

_SHORTEST_FORM = 8  # bytes of an encoded form; less of it is too common
_LONGEST = 8_192
_MOST = 512  # secrets that are remembered; the oldest go

# From rare to common in prose, JSON and identifiers: a secret's rarest byte is looked for first.
_BY_RARITY = {
    byte: rank
    for rank, byte in enumerate(
        rb"""~^`|@#%&;$!+?\<=>Z=QXJKYVWqzUHGFBOjPxLMDNRkI*TE/SCA()'[]:{}7849653210v._-,bgyw"pfmhdculinrsoate """
    )
}


class Learnt:
    """The secrets one process has seen. May be used from several threads."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[bytes, ...]] = {}
        self._needles: tuple[tuple[int, bytes], ...] = ()
        self._lock = threading.Lock()
        self.version = 0  # rises with every secret, so that what was found clean is known to be so no more

    def add(self, secret: str) -> None:
        """Remember `secret`. What is too short, too long or known is left out."""
        if secret in self._forms or not SHORTEST <= len(secret) <= _LONGEST:
            return
        forms = tuple(sorted(set(_forms(secret)), key=len, reverse=True))
        with self._lock:
            kept = dict(self._forms)
            kept[secret] = forms
            while len(kept) > _MOST:
                del kept[next(iter(kept))]
            needles = {form for known in kept.values() for form in known}
            self._forms = kept
            self._needles = tuple((_rarest(needle), needle) for needle in sorted(needles))
            self.version += 1

    def find(self, data: bytes) -> list[tuple[int, int]]:
        """Return the ranges of known secrets in `data`, in no order; they may overlap."""
        return [span for rare, needle in self._needles if rare in data for span in _spans(data, needle)]


def _spans(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(needle)
    while at >= 0:
        yield at, at + len(needle)
        at = data.find(needle, at + 1)


def _rarest(needle: bytes) -> int:
    return min(needle, key=lambda byte: _BY_RARITY.get(byte, -1))


def _forms(secret: str) -> Iterator[bytes]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield raw
    yield from _json_forms(secret)
    for text in (urllib.parse.quote(raw, safe=safe) for safe in ("", "/", "~()*!'")):
        yield text.encode()
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), text).encode()
    yield urllib.parse.quote_plus(raw).encode()
    yield html.escape(secret).encode("utf-8", "surrogatepass")
    yield html.escape(secret, quote=False).encode("utf-8", "surrogatepass")
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for form in _base64_forms(raw):
        if len(form) >= _SHORTEST_FORM:
            yield form
            yield form.translate(bytes.maketrans(b"+/", b"-_"))


def _json_forms(secret: str) -> Iterator[bytes]:
    once = [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)]
    once += [text.replace("/", "\\/") for text in once]
    once += [re.sub("[<>&']", lambda match: f"\\u{ord(match[0]):04x}", text) for text in once[:2]]
    for text in once:
        yield text.encode("utf-8", "surrogatepass")
        for ascii_only in (False, True):
            yield json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """Yield what base64 makes of `raw` wherever it stands in a longer text: the digits that depend on it alone."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)
        first = (before * 8 + 5) // 6
        yield encoded[first : (before + len(raw)) * 8 // 6]
