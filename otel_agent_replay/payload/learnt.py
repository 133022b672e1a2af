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
from collections.abc import Iterator, Sequence

from otel_agent_replay.payload.credentials import LONG

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

_WORDS = re.compile(rb"[A-Za-z0-9_-]+")


class Learnt:
    """The secrets one process has seen. May be used from several threads."""

    def __init__(self) -> None:
        self._forms: dict[str, frozenset[bytes]] = {}
        self._in_runs: tuple[tuple[int, bytes, bytes], ...] = ()  # length of the telling part, that part, the form
        self._anywhere: tuple[tuple[int, tuple[bytes, ...]], ...] = ()  # a byte, and the forms that hold it
        self._lock = threading.Lock()
        self.longest = 0  # bytes of the longest form
        self.version = 0  # rises with every secret, so that what was found clean is known to be so no more

    def add(self, secret: str) -> None:
        """Remember `secret`. What is too short, too long or known is left out."""
        if secret in self._forms or not SHORTEST <= len(secret) <= _LONGEST:
            return
        forms = frozenset(_forms(secret))
        with self._lock:
            kept = dict(self._forms)
            kept[secret] = forms
            while len(kept) > _MOST:
                del kept[next(iter(kept))]
            in_runs = []
            by_byte: dict[int, list[bytes]] = {}
            for form in sorted({form for known in kept.values() for form in known}):
                part = max(_WORDS.findall(form), key=len, default=b"")
                if len(part) >= LONG:
                    in_runs.append((len(part), part, form))
                else:
                    by_byte.setdefault(_rarest(form), []).append(form)
            self._forms = kept
            self.longest = max(len(form) for known in kept.values() for form in known)
            self._in_runs = tuple(sorted(in_runs))
            self._anywhere = tuple((byte, tuple(forms)) for byte, forms in by_byte.items())
            self.version += 1

    def may_be_in(self, data: bytes, runs: Sequence[tuple[int, int]] = ()) -> bool:
        """Return whether a secret, or a part of one, may be in `data`. `runs` is `runs_of(data)`."""
        for byte, _ in self._anywhere:
            if byte in data:
                return True
        in_runs = self._in_runs
        for start, end in runs if in_runs else ():
            for length, part, _ in in_runs:
                if length > end - start:
                    break
                if data.find(part, start, end) >= 0:
                    return True
        return False

    def find(self, data: bytes, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the ranges of known secrets in `data`, in no order; they may overlap. `runs` is `runs_of(data)`."""
        found = []
        for byte, forms in self._anywhere:
            if byte in data:
                found += [span for form in forms for span in _spans(data, form)]
        in_runs = self._in_runs
        for start, end in runs if in_runs else ():
            for length, part, form in in_runs:
                if length > end - start:
                    break
                if data.find(part, start, end) >= 0:
                    found += _spans(data, form)
        return found


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
