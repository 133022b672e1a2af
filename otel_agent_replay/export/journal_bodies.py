"""Bodies out of the journal: found by digest, rebuilt where they were written as a difference, proved by the digest."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from otel_agent_replay.export.segments import SegmentData
from otel_agent_replay.model import EMPTY_DIGEST, digest_of
from otel_agent_replay.payload.parts import Part, joined
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_log = logging.getLogger("otel_agent_replay")
_CACHE_BYTES = 64 << 20


class _Where(NamedTuple):
    segment: int
    offset: int
    length: int
    size: int
    media_type: str
    which: str  # the kind of record that has it


class JournalBodies:
    """The bodies of `segments`. In the order of a run each is rebuilt from the one before it, at the cost of a copy."""

    def __init__(self, segments: Sequence[SegmentData]) -> None:
        self._segments = segments
        self._where: dict[bytes, _Where] = {}
        self._cache: OrderedDict[bytes, bytes] = OrderedDict()
        self._cached_bytes = 0

    def add(self, body: wire.Body, segment: int, offset: int, length: int) -> None:
        """Note where a body lies; of several copies the first counts."""
        if body.digest not in self._where:
            size = len(body.data) + (body.prefix + body.suffix if body.base else 0)
            size += sum(len(part.data) + part.size for part in body.parts)
            self._where[body.digest] = _Where(segment, offset, length, size, body.media_type, "body")

    def add_small(self, node: wire.NodeBegun | wire.NodeEnded, segment: int, offset: int, length: int) -> None:
        """Note the small payload that lies in a node's own record, if one does."""
        if isinstance(node, wire.NodeBegun):
            data, digest, media_type = node.request_data, node.request_digest, node.exchange.request_media_type
            which = "node_begun"
        else:
            data, digest, media_type = node.result_data, node.result_digest, node.exchange.result_media_type
            which = "node_ended"
        if data and digest not in self._where:
            self._where[digest] = _Where(segment, offset, length, len(data), media_type, which)

    def size(self, digest: bytes) -> int | None:
        """Return a body's bytes in number, None when it is not here."""
        where = self._where.get(digest)
        return None if where is None else where.size

    def media_type(self, digest: bytes) -> str:
        """Return a body's media type, "" when it is not here."""
        where = self._where.get(digest)
        return "" if where is None else where.media_type

    def payload(self, digest: bytes) -> bytes | None:
        """Return the bytes behind a digest; None when they were never written, or are not what the digest says."""
        if digest == EMPTY_DIGEST:
            return b""
        missing: list[wire.Body] = []
        wanted = digest
        while (data := self._cached(wanted)) is None:
            where = self._where.get(wanted)
            if where is None:
                return None
            record = self._segments[where.segment].record_at(where.offset, where.length)
            if where.which != "body":
                in_begin = where.which == "node_begun"
                data = record.node_begun.request_data if in_begin else record.node_ended.result_data
                if not self._proved(wanted, data):
                    return None
                break
            body = record.body
            if not body.base:
                data = body.data
                if not self._proved(body.digest, data):
                    return None
                break
            missing.append(body)
            if len(missing) > len(self._where):
                return None  # a circle: no writer of ours makes one
            wanted = body.base
        for body in reversed(missing):
            data = _rebuilt(data, body)
            if not self._proved(body.digest, data):
                return None
        return data

    def _cached(self, digest: bytes) -> bytes | None:
        data = self._cache.get(digest)
        if data is not None:
            self._cache.move_to_end(digest)
        return data

    def _proved(self, digest: bytes, data: bytes) -> bool:
        if digest_of(data) != digest:
            _log.error("a body of the journal is not what its digest %s says; it is left out", digest.hex())
            return False
        if len(data) <= _CACHE_BYTES // 2:
            self._cache[digest] = data
            self._cached_bytes += len(data)
            while self._cached_bytes > _CACHE_BYTES:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1])
        return True


def _rebuilt(base: bytes, body: wire.Body) -> bytes:
    if body.parts:
        return joined(base, [Part(part.data, part.start, part.size) for part in body.parts])
    return base[: body.prefix] + body.data + base[len(base) - body.suffix :]
