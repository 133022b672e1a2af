"""CRC-32 and gzip, by `isal` where it is installed (the extra `collector`), else by the standard library.

Both give the same results; `isal` takes a third of the time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

crc32: Callable[[Any, int], int]
decompressor: Callable[[int], Any]

try:
    from isal import isal_zlib
except ImportError:
    crc32, decompressor = zlib.crc32, zlib.decompressobj
else:
    crc32, decompressor = isal_zlib.crc32, isal_zlib.decompressobj

_GZIP = 16 + zlib.MAX_WBITS
_STEP = 1 << 20


class TooLarge(ValueError):
    """What was compressed is larger than it may be."""


def gunzip(data: bytes | memoryview, most: int) -> bytes:
    """Return what gzip members hold, at most `most` bytes. Raises TooLarge beyond, ValueError for what is no gzip."""
    parts: list[bytes] = []
    size = 0
    rest: bytes | memoryview = data
    while len(rest):
        stream = decompressor(_GZIP)
        while not stream.eof:
            try:
                part = stream.decompress(rest, min(_STEP, most - size + 1))
            except Exception as error:  # isal's own error class, or zlib's
                raise ValueError(f"it is no gzip: {error}") from error
            rest = stream.unconsumed_tail
            size += len(part)
            if size > most:
                raise TooLarge
            parts.append(part)
            if not part and not len(rest) and not stream.eof:
                raise ValueError("it is a gzip that was cut")
        rest = stream.unused_data
    return b"".join(parts)
