"""Identifiers of runs, traces and spans.

A run id is a UUIDv7 (RFC 9562, section 5.7): its first 48 bits are the start of the run in Unix
milliseconds, so ids sort by time and name the partition of the lake that holds the run. All draws
come from a generator of our own, never from the application's.
"""

from __future__ import annotations

import os
import random
import time
from typing import NewType

RunId = NewType("RunId", bytes)
"""16 bytes; shown as 32 lower-case hexadecimal digits."""

# Bound at import, before any interception: our own ids must neither be recorded nor replayed.
_time_ns = time.time_ns
_NO_SPAN = bytes(8)
_bits = random.Random(int.from_bytes(os.urandom(16), "big")).getrandbits  # noqa: S311 - identifiers, not secrets


def _reseed_in_child() -> None:
    """Give a forked child its own stream, else parent and child would draw the same ids."""
    global _bits
    _bits = random.Random(int.from_bytes(os.urandom(16), "big")).getrandbits  # noqa: S311 - identifiers, not secrets


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reseed_in_child)


def new_run_id(now_ms: int | None = None) -> RunId:
    """Return a fresh run id whose leading 48 bits are `now_ms` (Unix milliseconds; default: now)."""
    milliseconds = _time_ns() // 1_000_000 if now_ms is None else now_ms
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | _bits(12) << 64 | 0b10 << 62 | _bits(62)
    return RunId(value.to_bytes(16, "big"))


def run_started_ms(run_id: bytes) -> int:
    """Return the Unix milliseconds in a run id. Raises ValueError when it is not 16 bytes."""
    if len(run_id) != 16:
        raise ValueError(f"a run id has 16 bytes, not {len(run_id)}")
    return int.from_bytes(run_id[:6], "big")


def format_run_id(run_id: bytes) -> str:
    """Return the 32 hexadecimal digits of a run id."""
    return run_id.hex()


def new_trace_id() -> bytes:
    """Return 16 random bytes that are not all zero (W3C Trace Context)."""
    return (_bits(128) or 1).to_bytes(16, "big")


def new_span_ids(count: int) -> bytes:
    """Return `count` span ids, one behind the other."""
    ids = _bits(64 * count).to_bytes(8 * count, "big") if count else b""
    if any(ids[at : at + 8] == _NO_SPAN for at in range(0, len(ids), 8)):
        return b"".join(new_span_id() for _ in range(count))
    return ids


def new_span_id() -> bytes:
    """Return 8 random bytes that are not all zero (W3C Trace Context)."""
    return (_bits(64) or 1).to_bytes(8, "big")
