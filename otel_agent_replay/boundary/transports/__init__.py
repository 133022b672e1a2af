"""The HTTP client libraries at the boundary, one file each.

Owns when they are patched: at once when the host has imported them, else on their import. A library that the
host never imports is never imported by us.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.transports.uncovered import uncovered_sdks, warn_of_uncovered_sdks
from otel_agent_replay.model import CoverageEntry

__all__ = ["coverage", "install", "uncovered_sdks", "uninstall", "warn_of_uncovered_sdks"]

_log = logging.getLogger("otel_agent_replay")
_FAMILIES = {
    "httpx": "httpx_family",
    "httpx2": "httpx_family",
    "urllib3": "urllib3_requests",
    "aiohttp": "aiohttp_client",
}
_lock = threading.RLock()
_entries: dict[str, CoverageEntry] = {}
_patched: dict[str, ModuleType] = {}


def install() -> list[CoverageEntry]:
    """Stand in front of every client library, now or once it is imported; the same again changes nothing."""
    with _lock:
        for name in _FAMILIES:
            if name in _entries:
                continue
            module = sys.modules.get(name)
            if module is None or _is_being_imported(module):
                _entries[name] = CoverageEntry(name, "captured", "not imported so far; from its import on")
            else:
                _patch(module)
        if _hook not in sys.meta_path:
            sys.meta_path.insert(0, _hook)
        return coverage()


def uninstall() -> None:
    """Put every original back and forget the libraries not imported so far."""
    with _lock:
        if _hook in sys.meta_path:
            sys.meta_path.remove(_hook)
        for name, module in _patched.items():
            _family(name).unpatch(module)
        _patched.clear()
        _entries.clear()


def coverage() -> list[CoverageEntry]:
    """Return what stands in front of which library, as far as is known now."""
    with _lock:
        return list(_entries.values())


def _family(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{_FAMILIES[name]}")


def _patch(module: ModuleType) -> None:
    name = module.__name__
    try:
        _entries[name] = _family(name).patch(module)
        _patched[name] = module
    except Exception as error:
        _entries[name] = CoverageEntry(name, "not_captured", f"cannot stand in front of it: {error!r}")
        _log.exception("cannot stand in front of %s; its calls go unrecorded", name)


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class _ImportHook(importlib.abc.MetaPathFinder):
    """Notices the import of a library we wait for; one dictionary look-up for every other import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _FAMILIES or fullname in _patched:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _NoticingLoader(spec.loader, _imported)
                return spec
        return None


class _NoticingLoader(importlib.abc.Loader):
    """Loads with the real loader, puts it back, and tells."""

    def __init__(self, loader: Any, tell: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._tell = tell

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._tell(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _imported(module: ModuleType) -> None:
    with _lock:
        if _hook in sys.meta_path:
            _patch(module)


_hook = _ImportHook()
