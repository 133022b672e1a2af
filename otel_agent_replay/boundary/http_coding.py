"""Content codings of HTTP bodies: undone to look inside, redone where something was masked.

Owns gzip, deflate, br and zstd, chunk by chunk, so that chunk boundaries survive. It must not do I/O nor
import a codec package that the host does not have.
"""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.boundary.http_frames import MEDIA_TYPE, masked_frames
from otel_agent_replay.payload.redaction import Redaction

MOST_DECODED = 64 << 20
"""Bytes; a body that unpacks to more is not looked into (a decompression bomb must not take the host down)."""


class CodingError(Exception):
    """The body is not of the coding its head names, the coding is unknown here, or it unpacks to too much."""


def codings_of(headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the content codings in the order they were applied, lower case, `identity` left out."""
    for name, value in headers:
        if len(name) == 16 and name.lower() == "content-encoding":
            return codings_in(value)
    return ()


def codings_in(value: str) -> tuple[str, ...]:
    """Return the codings that the value of such a header names."""
    return tuple(word for part in value.split(",") if (word := part.strip().lower()) not in {"", "identity"})


class _Inflate:
    """gzip (also of several members) and deflate (zlib or raw)."""

    def __init__(self, coding: str) -> None:
        self._window = 31 if coding in {"gzip", "x-gzip"} else 15
        self._inner = zlib.decompressobj(self._window)
        self._head: bytes | None = None if self._window == 31 else b""  # of deflate, until its form is known

    def decode(self, data: bytes, limit: int) -> bytes:
        out = []
        while data:
            if self._inner.eof:
                if self._window != 31 or data[:1] != b"\x1f":
                    break  # what follows the end is no further member: readers leave it alone
                self._inner = zlib.decompressobj(self._window)
            try:
                piece = self._inner.decompress(data, limit + 1)
            except zlib.error:
                if self._head is None:
                    raise
                # Many servers send deflate without the zlib header that belongs to it.
                data, self._head, self._window = self._head + data, None, -15
                self._inner = zlib.decompressobj(self._window)
                continue
            if self._head is not None:
                self._head = self._head + data if len(self._head) + len(data) < 2 else None
            limit -= len(piece)
            if limit < 0:
                raise CodingError(f"unpacks to more than {MOST_DECODED >> 20} MiB")
            out.append(piece)
            data = self._inner.unused_data if self._inner.eof else b""
        return b"".join(out)


class _Unbounded:
    """A decoder of another package, whose output can only be weighed afterwards."""

    def __init__(self, decode: Any) -> None:
        self._decode = decode

    def decode(self, data: bytes, limit: int) -> bytes:
        piece: bytes = self._decode(data) if data else b""
        if len(piece) > limit:
            raise CodingError(f"unpacks to more than {MOST_DECODED >> 20} MiB")
        return piece


def _package(*names: str) -> Any:
    for name in names:
        if importlib.util.find_spec(name.partition(".")[0]) and importlib.util.find_spec(name):
            return importlib.import_module(name)
    raise CodingError(f"none of the packages {', '.join(names)} is installed")


def _decoder(coding: str) -> _Inflate | _Unbounded:
    if coding in {"gzip", "x-gzip", "deflate"}:
        return _Inflate(coding)
    if coding == "br":
        inner = _package("brotli", "brotlicffi").Decompressor()
        return _Unbounded(getattr(inner, "process", None) or inner.decompress)
    if coding == "zstd":
        package = _package("compression.zstd", "backports.zstd", "zstandard")
        is_zstandard = package.__name__ == "zstandard"
        return _Unbounded(
            package.ZstdDecompressor().decompressobj().decompress
            if is_zstandard
            else package.ZstdDecompressor().decompress
        )
    raise CodingError(f"unknown content coding {coding!r}")


def decoded_chunks(chunks: Sequence[bytes], codings: Sequence[str]) -> list[bytes]:
    """Return what each chunk unpacks to, one piece a chunk. Raises CodingError."""
    pieces = list(chunks)
    for coding in reversed(codings):
        decoder = _decoder(coding)
        left = MOST_DECODED
        for number, piece in enumerate(pieces):
            try:
                pieces[number] = decoder.decode(piece, left)
            except CodingError:
                raise
            except Exception as error:  # each codec package has an error class of its own
                raise CodingError(f"not {coding}: {error}") from error
            left -= len(pieces[number])
    return pieces


def decoded_body(body: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a stored body without its content codings; the same bytes when it has none. Raises CodingError."""
    codings = codings_of(headers)
    return decoded_chunks([body], codings)[0] if codings else body


def _encoded_chunks(pieces: Sequence[bytes], coding: str) -> list[bytes]:
    """Return the pieces packed so that each unpacks by itself, as far as the reader has got."""
    encoder: Any
    flush: Callable[[], bytes]
    if coding in {"gzip", "x-gzip", "deflate"}:
        encoder = zlib.compressobj(6, zlib.DEFLATED, 15 if coding == "deflate" else 31)
        flush = lambda: encoder.flush(zlib.Z_SYNC_FLUSH)  # noqa: E731
        pack, finish = encoder.compress, encoder.flush
    elif coding == "br":
        encoder = _package("brotli", "brotlicffi").Compressor()
        pack, flush, finish = encoder.process, encoder.flush, encoder.finish
    else:
        package = _package("compression.zstd", "backports.zstd", "zstandard")
        if package.__name__ == "zstandard":
            encoder = package.ZstdCompressor().compressobj()
            flush = lambda: encoder.flush(package.COMPRESSOBJ_FLUSH_BLOCK)  # noqa: E731
        else:
            encoder = package.ZstdCompressor()
            flush = lambda: encoder.flush(package.ZstdCompressor.FLUSH_BLOCK)  # noqa: E731
        pack, finish = encoder.compress, encoder.flush
    last = max((number for number, piece in enumerate(pieces) if piece), default=len(pieces) - 1)
    out = []
    for number, piece in enumerate(pieces):
        packed = pack(piece) if piece else b""
        if number == last:
            packed += finish()
        elif piece:
            packed += flush()
        out.append(packed)
    return out


@dataclass(frozen=True, slots=True)
class Masked:
    """A body after redaction: as many chunks as came, what they unpack to, whether they are what came."""

    chunks: list[bytes]
    plain: bytes
    exact: bool
    notes: tuple[str, ...] = ()


def masked(redaction: Redaction, chunks: list[bytes], media_type: str, codings: Sequence[str]) -> Masked:
    """Return the chunks with every secret masked, also one that is split over several.

    A packed body is unpacked, looked into, and packed anew only when something was masked; frames alike.
    """
    if not chunks:
        return Masked(chunks, b"", exact=True)
    if not codings:
        if len(chunks) == 1 and media_type != MEDIA_TYPE:
            body = redaction.body(chunks[0], media_type)
            return Masked([body], body, exact=body is chunks[0] or body == chunks[0])
        clean = _looked_into(redaction, chunks, media_type)
        return Masked(clean, b"".join(clean), exact=clean == chunks)
    try:
        pieces = decoded_chunks(chunks, codings)
    except CodingError as error:
        note = f"the body could not be unpacked, so redaction rules could not look inside: {error}"
        return Masked(chunks, b"", exact=True, notes=(note,))
    clean = _looked_into(redaction, pieces, media_type)
    plain = b"".join(clean)
    if clean == pieces:
        return Masked(chunks, plain, exact=True)
    for coding in codings:
        clean = _encoded_chunks(clean, coding)
    return Masked(clean, plain, exact=False)


def _looked_into(redaction: Redaction, chunks: list[bytes], media_type: str) -> list[bytes]:
    return masked_frames(redaction, chunks) if media_type == MEDIA_TYPE else redaction.chunks(chunks, media_type)
