"""A file as its readers take it: gzip around it undone, its head for telling what it is, lines without holding all."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.packed import GZIP

HEAD = 1 << 16
"""Bytes that are looked at to tell a format."""

MOST_AT_ONCE = 1 << 30
"""Bytes that a format which cannot be read piece by piece may have: a small file may be made to fill the memory."""

_PIECE = 1 << 20
_WITH_GZIP_HEAD = 31


class OpenedFile:
    """One file. `is_cut` tells, after reading, that its gzip ended in the middle.

    Reading raises OSError, and DamagedRecording for gzip that is broken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_cut = False

    @cached_property
    def head(self) -> bytes:
        """The first bytes, without white space before them."""
        found = b""
        for piece in self.pieces():
            found = (found + piece).lstrip()
            if len(found) >= HEAD:
                break
        return found[:HEAD]

    def pieces(self) -> Iterator[bytes]:
        """Yield the unpacked bytes; the members of a gzip file follow each other."""
        with self.path.open("rb") as file:
            first = file.read(_PIECE)
            if not first.startswith(GZIP):
                while first:
                    yield first
                    first = file.read(_PIECE)
                return
            held = first
            while held.startswith(GZIP):  # what lies behind the last member is padding
                decoder = zlib.decompressobj(_WITH_GZIP_HEAD)
                while held and not decoder.eof:
                    try:
                        yield decoder.decompress(held, _PIECE)
                    except zlib.error as error:
                        raise DamagedRecording(f"{self.path} begins as gzip and cannot be unpacked: {error}") from error
                    held = decoder.unconsumed_tail or decoder.unused_data or file.read(_PIECE)
                self.is_cut = not decoder.eof

    def data(self) -> bytes:
        """Return all bytes. Raises DamagedRecording for more than `MOST_AT_ONCE`."""
        found: list[bytes] = []
        size = 0
        for piece in self.pieces():
            found.append(piece)
            size += len(piece)
            if size > MOST_AT_ONCE:
                raise DamagedRecording(f"{self.path} holds more than {MOST_AT_ONCE >> 20} MiB: split it")
        return b"".join(found)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that are not blank, without their ends."""
        rest: list[bytes] = []
        size = 0
        for piece in self.pieces():
            parts = piece.split(b"\n")
            for part in parts[:-1]:
                line = b"".join((*rest, part)).strip()
                rest, size = [], 0
                if line:
                    yield line
            rest.append(parts[-1])
            size += len(parts[-1])
            if size > MOST_AT_ONCE:
                raise DamagedRecording(f"{self.path} has a line of more than {MOST_AT_ONCE >> 20} MiB")
        line = b"".join(rest).strip()
        if line:
            yield line

    @cached_property
    def document(self) -> Any:
        """The file as one JSON document; None when it is none. Not for files of lines."""
        try:
            return json.loads(self.data())
        except (ValueError, RecursionError):
            return None
