"""Which runs are kept: all that failed, were flagged or did something risky, and a share of the rest. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from otel_agent_replay import semconv
from otel_agent_replay.model import SideEffect, Span

_ERROR = 2  # OTLP StatusCode
_RISKY = frozenset({SideEffect.WRITE.value, SideEffect.EXTERNAL.value})
_PRECISION = 1 << 56


class Policy:
    """`rate` is the share that is kept whatever it is; `always` names what is kept beside: failed, flagged, risky."""

    def __init__(self, rate: float, always: Sequence[str]) -> None:
        self._threshold = int(rate * _PRECISION)
        self._always = frozenset(always)

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is left out."""
        return self._threshold >= _PRECISION

    def keeps(self, trace_id: bytes, spans: Sequence[Span]) -> bool:
        """Return whether a trace is kept.

        `failed`: a span ended with an error. `flagged`: its agent marked the run. `risky`: it says of a step that it
        writes or acts outside. The rest is drawn by the trace's id alone, so that every receiver draws the same.
        """
        return self._draws(trace_id) or any(self._is_kept_for(span) for span in spans)

    def keeps_plain(self, trace_id: bytes, failed: bool) -> bool:
        """Return the same of a trace that says nothing of a run; `failed`: a span of it ended with an error."""
        return (failed and "failed" in self._always) or self._draws(trace_id)

    def _draws(self, trace_id: bytes) -> bool:
        return int.from_bytes(hashlib.sha256(trace_id).digest()[:7], "big") < self._threshold

    def _is_kept_for(self, span: Span) -> bool:
        return (
            ("failed" in self._always and span.status_code == _ERROR)
            or ("flagged" in self._always and span.attributes.get(semconv.FLAGGED) is True)
            or ("risky" in self._always and span.attributes.get(semconv.SIDE_EFFECT) in _RISKY)
        )
