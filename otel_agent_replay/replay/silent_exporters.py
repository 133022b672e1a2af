"""In a replay nothing is exported: the service's OTLP exporters take spans, metrics and logs, and send none.

Behind the fence they would only retry and hold up the end of the process, and the gRPC ones have sockets of their own
that no fence in the process sees. Owns the list of exporters; each is changed once it is imported.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.on_import import ImportNotice, loaded

EXPORTERS = {
    f"opentelemetry.exporter.otlp.proto.{transport}.{module}": name
    for transport in ("http", "grpc")
    for module, name in (
        ("trace_exporter", "OTLPSpanExporter"),
        ("metric_exporter", "OTLPMetricExporter"),
        ("_log_exporter", "OTLPLogExporter"),
    )
}


def silence() -> None:
    """Silence the exporters that are imported, and the others on their import; the same again changes nothing."""
    for name in EXPORTERS:
        module = loaded(name)
        if module is not None:
            _silence(module)
    _notice.turn_on()


def _silence(module: ModuleType) -> None:
    exporter = getattr(module, EXPORTERS[module.__name__], None)
    results = [value for name, value in vars(module).items() if name.endswith("ExportResult")]
    if exporter is not None and results:
        success = results[0].SUCCESS

        def export(_self: Any, *_batch: Any, **_options: Any) -> Any:
            """Take the batch, and leave it: this process is a replay."""
            return success

        exporter.export = export


_notice = ImportNotice(lambda name: name in EXPORTERS, _silence)
