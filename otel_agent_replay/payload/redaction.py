"""What may be stored: every body, header, URL, value and variable passes here before its digest is made.

Three things are masked: credentials by their shape and name (always), secrets that were seen elsewhere (always),
and what the user's rules name (not at capture level `full`). The same call masks what is stored and what comes in
during a replay, so that both still match. Owns the order of these; shapes, forms and rules have their own modules.
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_agent_replay.model import STREAM_TYPES, CaptureLevel
from otel_agent_replay.patterns import late
from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.alike_events import holds_nothing
from otel_agent_replay.payload.body_hits import BodyRules
from otel_agent_replay.payload.clean_bodies import SMALL, CleanBodies
from otel_agent_replay.payload.learnt import Learnt
from otel_agent_replay.payload.masks import (
    MASK,
    URL_MASK,
    Edit,
    apply,
    cut,
    cuts_of,
    hash_of,
    in_order,
    mask_of,
    move_cuts,
)
from otel_agent_replay.payload.rule_hits import RuleSet
from otel_agent_replay.payload.rules import Rule, rules_from

__all__ = ["Redaction", "Rule"]

_MOST_PASSES = 12  # each pass masks something more, so that the last one finds nothing; in practice two
_MOST_URLS = 256
_MOST_HEADERS = 2_048

_Header = tuple[str, str]

_URL = late(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?")
_PARAMETER = late(r"(?<=[?&;#])([^=&;#]+)=([^&;#]*)")
_PASSWORD = late(r"://[^\s/:@]*:([^\s/@]+)@")
_SECRET_PATH = late(
    r"(?<=hooks\.slack\.com/services/)[\w/-]+|(?<=/bot)\d{6,}:[\w-]{30,}|(?<=/api/webhooks/)\d{6,}/[\w-]{20,}"
)


class Redaction:
    """All rules of a process at one capture level. May be used from several threads.

    `key` is the key of hashes: equal values have equal hashes under one key. Redaction is idempotent, and it gives
    the same bytes however a body was cut into chunks.

    >>> Redaction.default().url("https://ann:pw@example.org/a?api_key=1234&q=x")
    'https://example.org/a?api_key=masked&q=x'
    """

    def __init__(
        self, rules: Sequence[Rule] = (), *, key: bytes = b"", level: CaptureLevel = CaptureLevel.REDACTED
    ) -> None:
        self.rules = tuple(rules)
        self.level = level
        self._key = key
        self._set = RuleSet(() if level is CaptureLevel.FULL else self.rules)
        self._only_credentials = not self._set
        self._body_rules = BodyRules(self._set, key)
        self._learnt = Learnt()
        self._levels: dict[CaptureLevel, Redaction] = {level: self}
        self._clean = CleanBodies()
        self._urls: dict[str, str] = {}
        self._known_headers: tuple[int, dict[_Header, _Header | None]] = (0, {})

    @classmethod
    def default(cls, *, key: bytes = b"", level: CaptureLevel = CaptureLevel.REDACTED) -> Redaction:
        """Return what is always on: credentials and learnt secrets. Personal data needs rules (see `rules.PRESETS`)."""
        return cls((), key=key, level=level)

    @classmethod
    def from_rules(cls, rules: Iterable[Mapping[str, Any]], *, key: bytes = b"") -> Redaction:
        """Return the built-in rules and `rules`, tables as in TOML. Raises ConfigurationError naming the rule."""
        return cls(rules_from(rules), key=key)

    def at(self, level: CaptureLevel) -> Redaction:
        """Return the same rules at another level; what one of them learns, all of them know."""
        other = self._levels.get(level)
        if other is None:
            other = Redaction(self.rules, key=self._key, level=level)
            other._learnt = self._learnt
            self._levels[level] = other
            other._levels = self._levels
        return other

    # --- secrets seen ---------------------------------------------------------------------------------------

    def learn(self, secret: str) -> None:
        """Mask `secret` wherever it appears from now on, also escaped, in a URL and in base64.

        Secrets under six characters are not looked for; of very many the oldest are forgotten.
        """
        self._learnt.add(secret)

    @property
    def has_learnt(self) -> bool:
        """Whether a secret was seen that is masked wherever it appears."""
        return self._learnt.version > 0

    def env(self, name: str, value: str) -> tuple[str, bool]:
        """Return what to store of an environment variable and whether it was masked; a secret is learnt.

        The mask of a secret is the one that a body has in its place: a replay without the secret still matches.
        """
        if credentials.is_secret_variable(name, value):
            self.learn(value)
            return mask_of(len(value.encode("utf-8", "surrogatepass"))), True
        action = self._set.key_action(name)
        if action == "mask":
            self.learn(value)
            return mask_of(len(value.encode("utf-8", "surrogatepass"))), True
        if action is not None:
            return self._short(action, value), True
        password = _PASSWORD.search(value) if "@" in value else None
        if password is not None:
            self.learn(password[1])
            self.learn(urllib.parse.unquote(password[1]))
        shown = self.text(value)
        return shown, shown is not value

    def is_named(self, name: str) -> bool:
        """Return whether values of this name are masked whatever they are: a span's attribute, by its last part."""
        last = name.rpartition(".")[2].lower().replace("_", "-")
        return credentials.is_header(last) or self._set.key_action(name) is not None

    def named(self, name: str, value: str) -> str:
        """Return what to store of a text that is known by a name, like a span's attribute."""
        action = self._set.key_action(name)
        if action is not None or self.is_named(name):
            return self._short(action or "mask", value)
        if value[:1] in {"{", "["}:
            data = value.encode("utf-8", "surrogatepass")
            return self.body(data, "application/json").decode("utf-8", "surrogatepass")
        return self.url(value) if _URL.match(value) and " " not in value else self.text(value)

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return a span's attributes with every text in them redacted."""
        return {name: self._attribute(name, value) for name, value in attributes.items()}

    def _attribute(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.named(name, value)
        if isinstance(value, bytes):
            return self.body(value, "application/octet-stream")
        if isinstance(value, Mapping):
            return self.attributes(value)
        if isinstance(value, Sequence):
            return [self._attribute(name, item) for item in value]
        return value

    def _short(self, action: str, value: str) -> str:
        if action == "hash":
            return hash_of(value.encode("utf-8", "surrogatepass"), self._key)[:23]
        return MASK if action == "mask" else ""

    # --- HTTP -----------------------------------------------------------------------------------------------

    def headers(self, items: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the headers that may be stored, in order. Credentials are left out, and learnt."""
        wanted = tuple(items)
        version, known = self._known_headers  # most headers come again with every call
        if version == self._learnt.version:
            try:
                return tuple(filter(None, map(known.__getitem__, wanted)))
            except KeyError:
                pass
        fresh: Sequence[_Header] = wanted
        if version == self._learnt.version and len(known) < _MOST_HEADERS:
            fresh = [item for item in wanted if item not in known]
        else:
            known = {}
        if fresh:
            before = self._learnt.version
            looked_at = self._looked_at(fresh)
            if self._learnt.version != before:  # a secret stood in one of them: the others may hold it too
                before, known, fresh = self._learnt.version, {}, wanted
                looked_at = self._looked_at(wanted)
            known.update(zip(fresh, looked_at))  # noqa: B905 - one for each
            self._known_headers = (before, known)
        return tuple([kept for item in wanted if (kept := known[item]) is not None])

    def _looked_at(self, items: Sequence[_Header]) -> list[_Header | None]:
        """Return what is kept of each header, None for one that is left out."""
        kept: list[_Header | None] = []
        for item in items:
            lowered = item[0].lower()
            if credentials.is_header(lowered):
                self._learn_header(lowered, item[1])
                kept.append(None)
                continue
            action = None if self._only_credentials else self._set.key_action(lowered)
            if action is None:
                kept.append(item)
            else:
                kept.append(None if action == "drop" else (item[0], self._short(action, item[1])))
        together = "\n".join([item[1] for item in kept if item is not None])
        if "://" not in together and self.text(together) is together:
            return kept
        return [None if item is None else (item[0], self._header_value(item[1])) for item in kept]

    def _header_value(self, value: str) -> str:
        return self.url(value) if "://" in value else self.text(value)

    def _learn_header(self, name: str, value: str) -> None:
        if "cookie" in name:
            for part in value.split(";") if name.startswith("cookie") else [value.partition(";")[0]]:
                secret = part.partition("=")[2].strip()
                if len(secret) >= _SHORTEST_COOKIE:
                    self.learn(secret)
            return
        scheme, _, secret = value.strip().partition(" ")
        self.learn(secret.strip() or scheme)
        if scheme.lower() == "basic":
            try:
                plain = base64.b64decode(secret, validate=True).decode("utf-8")
            except (binascii.Error, ValueError):
                return
            self.learn(plain.partition(":")[2])

    def url(self, url: str) -> str:
        """Return `url` without user information and with the values of secret parameters masked; else as it is."""
        key = f"{self._learnt.version}:{url}"
        known = self._urls.get(key)
        if known is None:
            known = self._redacted_url(url)
            if len(self._urls) >= _MOST_URLS:
                self._urls.clear()
            self._urls[key] = known
        return known

    def _redacted_url(self, url: str) -> str:
        start = _URL.match(url)
        if start is not None and start[2]:
            self.learn(urllib.parse.unquote(start[2][:-1].partition(":")[2]))
            url = start[1] + url[start.end() :]
        url = _SECRET_PATH.sub(URL_MASK, url)
        url = _PARAMETER.sub(self._parameter, url)
        if self._set.patterns:
            head, question, query = url.partition("?")
            url = "/".join(self._url_part(part) for part in head.split("/")) + question + query
        spans = self._spans(url.encode("utf-8", "surrogatepass"))
        if not spans:
            return url
        data = url.encode("utf-8", "surrogatepass")
        edits = in_order(data, [Edit(low, high, URL_MASK.encode()) for low, high in _united(spans)])
        return apply(data, edits).decode("utf-8", "surrogatepass")

    def _parameter(self, match: re.Match[str]) -> str:
        name, value = urllib.parse.unquote_plus(match[1]), match[2]
        if credentials.is_query_name(name):
            return f"{match[1]}={URL_MASK if value else ''}"
        action = self._set.key_action(name)
        if action is not None and value != URL_MASK:
            return f"{match[1]}={self._in_url(action, value)}"
        return f"{match[1]}={self._url_part(value)}"

    def _url_part(self, part: str) -> str:
        meaning = urllib.parse.unquote_plus(part)
        hits = self._set.in_text(meaning)
        return self._in_url(hits[0].action, part) if hits and not part.startswith("hash-") else part

    def _in_url(self, action: str, value: str) -> str:
        if action == "hash":
            if value.startswith("hash-"):
                return value
            return "hash-" + hash_of(value.encode("utf-8", "surrogatepass"), self._key)[6:22]
        return URL_MASK if action == "mask" else ""

    # --- bodies ---------------------------------------------------------------------------------------------

    def body(self, data: bytes, media_type: str) -> bytes:
        """Return a decoded body with everything masked that must be: the same object when nothing is."""
        if self._is_innocent(data) and not self._body_rules.needs_reading(media_type, data):
            return data
        return self._redacted(data, media_type, [], typed=False)[0]

    def chunks(self, chunks: Sequence[bytes], media_type: str) -> list[bytes]:
        """Return as many chunks, together what `body` makes of the whole: a secret cut in two is found."""
        whole = b"".join(chunks)
        if self._only_credentials and media_type in STREAM_TYPES and holds_nothing(whole, self._may_hold_secret):
            return list(chunks)
        redacted, cuts = self._redacted(whole, media_type, cuts_of(chunks), typed=False)
        return list(chunks) if redacted is whole else cut(redacted, cuts)

    def value_bytes(self, encoded: bytes) -> bytes:
        """Return typed-codec bytes with everything masked: still typed JSON, and the same object when nothing is.

        Paths are those of the value (`kwargs.customer.email`), not of the tags.
        """
        if self._is_innocent(encoded):
            return encoded
        return self._redacted(encoded, "application/json", [], typed=True)[0]

    def text(self, text: str) -> str:
        """Return `text` with everything masked: the same object when nothing is."""
        data = text.encode("utf-8", "surrogatepass")
        if self._is_innocent(data):
            return text
        redacted = self._redacted(data, "text/plain", [], typed=False)[0]
        return text if redacted is data else redacted.decode("utf-8", "surrogatepass")

    def _is_innocent(self, data: bytes) -> bool:
        """Whether a short text cannot hold anything that is to be masked; False says nothing."""
        return (
            self._only_credentials
            and len(data) <= _SHORT
            and credentials.is_plain(data)
            and not (self._learnt.longest and self._learnt.may_be_in(data))
        )

    def _may_hold_secret(self, data: bytes) -> bool:
        return self._learnt.may_be_in(data, credentials.runs_of(data))

    def _redacted(self, data: bytes, media_type: str, cuts: list[int], *, typed: bool) -> tuple[bytes, list[int]]:
        """Mask until nothing more is found: what is masked can bring to light what stood around it."""
        reads = not self._only_credentials or self._body_rules.needs_reading(media_type, data)
        for _ in range(_MOST_PASSES):
            spans = self._spans(data)
            if not spans and not reads:
                break
            found = [Edit(low, high, mask_of(high - low).encode()) for low, high in _united(spans)]
            if reads:
                found += self._body_rules.edits(data, media_type, self._all_spans, typed=typed)
            edits = in_order(data, found)
            if not edits:
                break
            cuts = move_cuts(cuts, edits)
            data = apply(data, edits)
        return data, cuts

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Find credentials and learnt secrets; a body that repeats a clean one is looked at only where it is new."""
        if len(data) < SMALL:
            return self._all_spans(data)
        return self._clean.find(data, self._learnt.version, credentials.REACH + self._learnt.longest, self._all_spans)

    def _all_spans(self, data: bytes) -> list[tuple[int, int]]:
        runs = credentials.runs_of(data)
        return credentials.find(data, runs) + self._learnt.find(data, runs)


_SHORTEST_COOKIE = 12
_SHORT = 2_048  # bytes of a value that is first asked whether it can hold anything at all


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return overlapping ranges as one."""
    united: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if united and low < united[-1][1]:
            united[-1] = (united[-1][0], max(high, united[-1][1]))
        elif low < high:
            united.append((low, high))
    return united
