"""In a replay nothing is exported: the service's OTLP exporters take spans, metrics and logs, and send none.

Behind the fence they would only retry and hold up the end of the process, and the gRPC ones have sockets of their own
that no fence in the process sees. Owns the list of exporters; each is changed once it is imported.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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
        module = sys.modules.get(name)
        if module is not None:
            _silence(module)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _silence(module: ModuleType) -> None:
    exporter = getattr(module, EXPORTERS[module.__name__], None)
    results = [value for name, value in vars(module).items() if name.endswith("ExportResult")]
    if exporter is not None and results:
        success = results[0].SUCCESS

        def export(_self: Any, *_batch: Any, **_options: Any) -> Any:
            """Take the batch, and leave it: this process is a replay."""
            return success

        exporter.export = export


class _Finder(importlib.abc.MetaPathFinder):
    """Notices the import of an exporter; one dictionary look-up for every other import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in EXPORTERS:
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(spec.loader)
                    return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads with the real loader, puts it back, and silences what came."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _silence(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
