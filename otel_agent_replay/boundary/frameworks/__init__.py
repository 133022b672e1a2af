"""The agent frameworks at the boundary, one file each.

Owns when they are hooked: at once when the host has imported them, else on their import. A framework that the host
never imports is never imported by us. Each file's docstring says which hook of the framework it uses.
"""

from __future__ import annotations

import importlib
import logging
import threading
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.on_import import ImportNotice, loaded
from otel_agent_replay.model import CoverageEntry

_log = logging.getLogger("otel_agent_replay")
_FRAMEWORKS = {"langgraph.checkpoint.base": ("langgraph", "langgraph.checkpointers")}
"""Module that is waited for, the file here that hooks it, and what it is called in a run's coverage."""

_lock = threading.RLock()
_entries: dict[str, CoverageEntry] = {}
_hooked: dict[str, ModuleType] = {}


def install() -> None:
    """Stand in front of every framework, now or once it is imported; the same again changes nothing."""
    with _lock:
        for name in _FRAMEWORKS:
            module = loaded(name)
            if module is not None and name not in _hooked:
                _hook(module)
        _notice.turn_on()


def uninstall() -> None:
    """Put every original back and forget the frameworks not imported so far."""
    with _lock:
        _notice.turn_off()
        for name, module in _hooked.items():
            _file_of(name).unhook(module)
        _hooked.clear()
        _entries.clear()


def coverage() -> list[CoverageEntry]:
    """Return what is hooked, of the frameworks that the host has imported."""
    with _lock:
        return list(_entries.values())


def _file_of(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{_FRAMEWORKS[name][0]}")


def _hook(module: ModuleType) -> None:
    name = module.__name__
    called = _FRAMEWORKS[name][1]
    try:
        _file_of(name).hook(module)
        _hooked[name] = module
        _entries[name] = CoverageEntry(called, "captured", "")
    except Exception as error:
        _entries[name] = CoverageEntry(called, "not_captured", f"cannot stand in front of it: {error!r}")
        _log.exception("cannot stand in front of %s; it goes unrecorded", called)


def _imported(module: ModuleType) -> None:
    with _lock:
        _hook(module)


_notice = ImportNotice(lambda name: name in _FRAMEWORKS and name not in _hooked, _imported)
