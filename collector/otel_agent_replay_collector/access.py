"""Who may send: bearer tokens, compared in constant time, and the keys of TLS."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError

_SHORTEST_TOKEN = 16


class Tokens:
    """The tokens that are known; with none, everybody may send."""

    def __init__(self, tokens: Sequence[str]) -> None:
        # Digests are all of one length, and comparing each of them takes the same time whoever asks.
        self._digests = [_digest(token.encode()) for token in tokens]

    def allow(self, authorization: bytes) -> bool:
        """Return whether an `authorization` header's value holds a known token."""
        if not self._digests:
            return True
        scheme, _, token = authorization.partition(b" ")
        given = _digest(token.strip())
        known = False
        for digest in self._digests:
            known |= hmac.compare_digest(digest, given)
        return known and scheme.lower() == b"bearer"


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def tokens_from(path: Path | None, given: str) -> list[str]:
    """Return the tokens of a file, one a line (`#` begins a remark), and a given one. Raises ConfigurationError."""
    tokens = [given] if given else []
    if path is not None:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"the tokens in {path} cannot be read: {error}") from error
        tokens += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not tokens:
            raise ConfigurationError(f"{path} holds no token: write one a line, or leave token_file out")
    if any(len(token) < _SHORTEST_TOKEN for token in tokens):
        raise ConfigurationError(f"a bearer token has fewer than {_SHORTEST_TOKEN} characters: it could be guessed")
    return tokens


@dataclass(frozen=True, slots=True)
class Keys:
    """Files of TLS, in PEM: ours, and with `client_ca` the authority whose certificate a sender must have (mTLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return what HTTP is served with. Raises ConfigurationError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"TLS cannot be set up with {self.certificate}: {error}") from error
        return context

    def credentials(self) -> Any:
        """Return what gRPC is served with. Raises ConfigurationError."""
        import grpc

        try:
            pair = (self.key.read_bytes(), self.certificate.read_bytes())
            authority = None if self.client_ca is None else self.client_ca.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"TLS cannot be set up with {self.certificate}: {error}") from error
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)
