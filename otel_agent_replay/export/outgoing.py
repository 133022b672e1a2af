"""Where a process that sends its runs keeps their journal, and what its sender must be told. Light: hosts import it."""

from __future__ import annotations

from pathlib import Path

from otel_agent_replay.settings import Settings, variables

STANDARD = tuple(
    f"OTEL_EXPORTER_OTLP_{of}{name}"
    for of in ("", "TRACES_")
    for name in ("ENDPOINT", "PROTOCOL", "HEADERS", "INSECURE", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
)
"""OpenTelemetry's own variables that say where to send, how and as whom."""


def outgoing_folder(settings: Settings) -> Path:
    """Return the folder whose journal holds what is to be sent."""
    return settings.lake / "outgoing"


def journal_root(settings: Settings) -> Path:
    """Return the folder in which a recording process keeps its journal: the lake, or what goes out."""
    sends = settings.export == "otlp" and settings.mode == "record"
    return outgoing_folder(settings) if sends else settings.lake


def sender_environment(settings: Settings) -> dict[str, str]:
    """Return what a sender must be told, as environment: nobody else sees secrets there."""
    ours = {
        "AGENT_REPLAY_OTLP_ENDPOINT": settings.otlp_endpoint,
        "AGENT_REPLAY_OTLP_HEADERS": settings.otlp_headers,
        "AGENT_REPLAY_OTLP_MESSAGE_MB": str(settings.otlp_message_mb),
    }
    return {name: value for name, value in ours.items() if value} | variables(STANDARD)
