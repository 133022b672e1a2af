"""The `opentelemetry_instrumentor` entry point: zero-code recording beside whatever tracing a service has.

`opentelemetry-instrument python app.py` finds it by itself; nothing is added to any list. It works beside
vendor distributions, under declarative configuration and with `OTEL_TRACES_EXPORTER=none`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from otel_agent_replay.configure import bootstrap, shutdown


class AgentReplayInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Adds the recorder to the service's tracer provider. Options are read from AGENT_REPLAY_*."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: it applies to every service."""
        return ()

    def _instrument(self, **_options: Any) -> None:
        bootstrap()

    def _uninstrument(self, **_options: Any) -> None:
        shutdown()
