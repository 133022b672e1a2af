"""Bytes behind a digest."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from otel_agent_replay.model.word import Word

_sha256 = hashlib.sha256
_new_tuple = tuple.__new__


def digest_of(data: bytes) -> bytes:
    """Return the SHA-256 of `data`: 32 bytes, the name of a payload everywhere."""
    return _sha256(data).digest()


EMPTY_DIGEST = digest_of(b"")


class MediaType(Word):
    """What a payload's bytes are. Written as is into the lake."""

    JSON = "application/json"
    EVENT_STREAM = "text/event-stream"
    BYTES = "application/octet-stream"
    VALUE = "application/vnd.agent-replay.value+json"  # payload.codec's typed JSON


STREAM_TYPES: Final = (
    MediaType.EVENT_STREAM.value,
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json-seq",
    "application/stream+json",
)
"""Media types of texts that come piece by piece, as they are made: events or lines of JSON."""


class Payload(NamedTuple):
    """Bytes with their digest; `data` is None when only the digest was kept (capture level `digest`).

    A tuple, because two are made a call: a frozen dataclass costs three times as much.
    """

    digest: bytes
    data: bytes | None
    media_type: str
    size: int

    @staticmethod
    def of(data: bytes, media_type: str) -> Payload:
        """Return the payload of `data`, digest computed."""
        return _new_tuple(Payload, (_sha256(data).digest(), data, media_type, len(data)))  # half of `Payload(...)`

    def with_data(self, data: bytes) -> Payload:
        """Return the same payload with its bytes, which the caller has proved by the digest."""
        return _new_tuple(Payload, (self[0], data, self[2], len(data)))

    def without_data(self) -> Payload:
        """Return the same payload with the digest only."""
        return Payload(self.digest, None, self.media_type, self.size)
