"""What a landing of plain traces came to: plain data, of which nothing is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PlainLanded:
    """What one landing did: the traces that it took, those of them that `keeps` left out, and the spans of both.

    `anomalies` counts what is wrong with those that were kept.
    """

    kept: list[bytes] = field(default_factory=list)
    left_out: list[bytes] = field(default_factory=list)
    span_count: int = 0
    anomalies: int = 0
    left_out_spans: int = 0
