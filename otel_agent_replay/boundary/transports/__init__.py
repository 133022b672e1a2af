"""The HTTP client libraries at the boundary, one file each.

Owns when they are patched: at once when the host has imported them, else on their import. A library that the
host never imports is never imported by us.
"""

from __future__ import annotations

import importlib
import logging
import threading
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.on_import import ImportNotice, loaded
from otel_agent_replay.boundary.transports.uncovered import uncovered_sdks, warn_of_uncovered_sdks
from otel_agent_replay.model import CoverageEntry

__all__ = ["FAMILIES", "coverage", "install", "uncovered_sdks", "uninstall", "warn_of_uncovered_sdks"]

_log = logging.getLogger("otel_agent_replay")
FAMILIES = {
    "httpx": "httpx_family",
    "httpx2": "httpx_family",
    "urllib3": "urllib3_requests",
    "aiohttp": "aiohttp_client",
}
"""Client library, as it is imported, to the file here that hooks it."""

_SIGNERS = {"botocore.auth": "aws_signing"}
"""What signs requests before a client library sends them. Nothing is recorded there: no run's coverage tells of it."""
_FILES = {**FAMILIES, **_SIGNERS}
_lock = threading.RLock()
_entries: dict[str, CoverageEntry] = {}
_patched: dict[str, ModuleType] = {}


def install() -> list[CoverageEntry]:
    """Stand in front of every client library, now or once it is imported; the same again changes nothing."""
    with _lock:
        for name in _FILES:
            if name in _entries or name in _patched:
                continue
            module = loaded(name)
            if module is None and name in _SIGNERS:
                continue
            if module is None:
                _entries[name] = CoverageEntry(name, "captured", "not imported so far; from its import on")
            else:
                _patch(module)
        _notice.turn_on()
        return coverage()


def uninstall() -> None:
    """Put every original back and forget the libraries not imported so far."""
    with _lock:
        _notice.turn_off()
        for name, module in _patched.items():
            _file_of(name).unpatch(module)
        _patched.clear()
        _entries.clear()


def coverage() -> list[CoverageEntry]:
    """Return what stands in front of which library, as far as is known now."""
    with _lock:
        return list(_entries.values())


def _file_of(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{_FILES[name]}")


def _patch(module: ModuleType) -> None:
    name = module.__name__
    try:
        entry = _file_of(name).patch(module)
        _patched[name] = module
        if entry is not None:
            _entries[name] = entry
    except Exception as error:
        _entries[name] = CoverageEntry(name, "not_captured", f"cannot stand in front of it: {error!r}")
        _log.exception("cannot stand in front of %s; its calls go unrecorded", name)


def _imported(module: ModuleType) -> None:
    with _lock:
        _patch(module)


_notice = ImportNotice(lambda name: name in _FILES and name not in _patched, _imported)
