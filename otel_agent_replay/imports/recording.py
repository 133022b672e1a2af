"""A run that a file holds, before anybody knows where it goes: its identity, and how it is built.

Identity is the record's content: the same record gives the same trace id from any copy, at any time. A run id also
holds when the run began; of a file that does not tell, when the file was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel_agent_replay.model import Label, RecordedRun
from otel_agent_replay.payload.redaction import Redaction


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run as it is written, and the labels that say what its file says of it."""

    run: RecordedRun
    labels: Sequence[Label] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """`build(written_ns, redaction)` gives the run; `written_ns` (Unix) dates one of which the file tells no time."""

    trace_id: bytes
    build: Callable[[int, Redaction], ImportedRun]


def trace_id_of(format_name: str, identity: bytes) -> bytes:
    """Return the trace id of a record."""
    return hashlib.sha256(f"{format_name}\0".encode() + identity).digest()[:16]


def run_id_of(trace_id: bytes, started_ns: int) -> bytes:
    """Return a run id (UUIDv7) whose random part is the record's own."""
    drawn = int.from_bytes(hashlib.sha256(trace_id).digest()[:10], "big")
    milliseconds = started_ns // 1_000_000 & (1 << 48) - 1
    value = milliseconds << 80 | 0x7 << 76 | (drawn >> 62 & 0xFFF) << 64 | 0b10 << 62 | drawn & (1 << 62) - 1
    return value.to_bytes(16, "big")


def span_id_of(trace_id: bytes, number: int) -> bytes:
    """Return the id of the span of that number of a record."""
    return hashlib.sha256(trace_id + number.to_bytes(4, "big")).digest()[:8]
