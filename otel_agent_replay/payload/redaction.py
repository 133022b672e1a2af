"""What must not be stored, and how it is masked. First form: credentials by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import CaptureLevel

CREDENTIAL_HEADERS = frozenset(
    {
        "authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key", "x-goog-api-key",
        "x-amz-security-token",
    }
)  # fmt: skip
_TOKENS = re.compile(rb"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35})")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_QUERY = re.compile(r"(?i)([?&](?:sig|signature|key|api[-_]?key|token|access_token|x-amz-signature)=)[^&#]+")


@dataclass(frozen=True)
class Rule:
    """One rule: an action, and exactly one of `path`, `key` and `pattern`."""

    name: str
    action: str
    path: str | None = None
    key: str | None = None
    pattern: str | None = None


class Redaction:
    """All rules of a process, compiled."""

    def __init__(
        self, rules: Sequence[Rule] = (), *, key: bytes = b"", level: CaptureLevel = CaptureLevel.FULL
    ) -> None:
        self.rules = tuple(rules)
        self.level = level
        self._key = key
        self._learnt: list[bytes] = []

    @classmethod
    def default(cls, *, key: bytes = b"", level: CaptureLevel = CaptureLevel.REDACTED) -> Redaction:
        """Return the built-in rules."""
        return cls((), key=key, level=level)

    @classmethod
    def from_rules(
        cls, rules: Iterable[Mapping[str, Any]], *, key: bytes = b"", level: CaptureLevel = CaptureLevel.REDACTED
    ) -> Redaction:
        """Return the built-in rules and `rules`. Raises ConfigurationError naming the rule."""
        try:
            return cls([Rule(**rule) for rule in rules], key=key, level=level)
        except TypeError as error:
            raise ConfigurationError(f"redaction rule: {error}") from error

    def learn(self, secret: str) -> None:
        """Mask `secret` wherever it appears from now on."""
        self._learnt.append(secret.encode())

    def headers(self, items: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the headers that may be stored."""
        return tuple((name, self.text(value)) for name, value in items if name.lower() not in CREDENTIAL_HEADERS)

    def url(self, url: str) -> str:
        """Return `url` without user information and secrets in its query."""
        return _QUERY.sub(r"\1masked", re.sub(r"(?<=://)[^/@?#]*@", "", url))

    def body(self, data: bytes, media_type: str) -> bytes:
        """Return `data` with secrets masked: the same object when there are none."""
        masked = _TOKENS.sub(lambda match: b"*" * len(match[0]), data)
        for secret in self._learnt:
            masked = masked.replace(secret, b"*" * len(secret))
        return data if masked == data else masked

    def chunks(self, chunks: Sequence[bytes], media_type: str) -> list[bytes]:
        """Return as many chunks, their concatenation redacted as one body."""
        whole = self.body(b"".join(chunks), media_type)
        result, start = [], 0
        for chunk in chunks:
            result.append(whole[start : start + len(chunk)])
            start += len(chunk)
        return result

    def value_bytes(self, encoded: bytes) -> bytes:
        """Return typed-codec bytes with secrets masked."""
        return self.body(encoded, "application/json")

    def text(self, text: str) -> str:
        """Return `text` with secrets masked."""
        return self.body(text.encode("utf-8", "surrogatepass"), "text/plain").decode("utf-8", "surrogatepass")

    def env(self, name: str, value: str) -> tuple[str, bool]:
        """Return what to store of an environment variable, and whether it was masked (and learnt)."""
        if _SECRET_NAME.search(name):
            self.learn(value)
            return "*" * len(value), True
        masked = self.text(value)
        return masked, masked != value
