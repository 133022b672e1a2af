"""Undoing what was packed around a body in a file: gzip with a bound and a look at its end, hexadecimal text."""

from __future__ import annotations

import zlib

from otel_agent_replay.errors import DamagedRecording

GZIP = b"\x1f\x8b"
MOST_UNPACKED = 64 << 20
"""Bytes; a file that unpacks to more is refused, since a small one may be made to fill the memory."""

_HEX_AT_LEAST = 24  # digits
_WITH_GZIP_HEAD = 31


def unzipped(data: bytes, source: str) -> tuple[bytes, bool]:
    """What gzip bytes unpack to, several members included, and whether the last of them is whole.

    Raises DamagedRecording when they are no gzip, or unpack to more than `MOST_UNPACKED`.
    """
    pieces: list[bytes] = []
    left = MOST_UNPACKED
    while data.startswith(GZIP):
        decoder = zlib.decompressobj(_WITH_GZIP_HEAD)
        try:
            pieces.append(decoder.decompress(data, left + 1))
        except zlib.error as error:
            raise DamagedRecording(f"{source} begins as gzip and cannot be unpacked: {error}") from error
        left -= len(pieces[-1])
        if left < 0:
            raise DamagedRecording(f"{source} unpacks to more than {MOST_UNPACKED >> 20} MiB; it is not read")
        if not decoder.eof:
            return b"".join(pieces), False
        data = decoder.unused_data
    return b"".join(pieces), True


def is_hex(text: str) -> bool:
    """Whether a text is bytes written as hexadecimal digits: long enough to be nothing else, spaces let be."""
    digits = "".join(text.split())
    if len(digits) < _HEX_AT_LEAST or len(digits) % 2:
        return False
    try:
        bytes.fromhex(digits)
    except ValueError:
        return False
    return True
