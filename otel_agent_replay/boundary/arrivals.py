"""Tells when a module that we wait for has been imported.

A library is never imported on our account: its hooks are put in when the host has imported it, or once it does.
"""

from __future__ import annotations

import importlib.abc
import logging
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Tell = Callable[[ModuleType], None]

_log = logging.getLogger("otel_agent_replay")


def when_imported(name: str, tell: Tell) -> None:
    """Call `tell(module)` now if module `name` is imported, else once it is, unless `forget` comes first."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        tell(module)
        return
    _finder.awaited[name] = tell
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(name: str) -> None:
    """Wait no longer for module `name`."""
    _finder.awaited.pop(name, None)
    if not _finder.awaited and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lends the awaited modules' own loaders an ear."""

    def __init__(self) -> None:
        self.awaited: dict[str, Tell] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.awaited:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _TellingLoader(spec.loader)
                return spec
        return None


class _TellingLoader(importlib.abc.Loader):
    """Loads with the real loader, puts it back, and tells."""

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
        tell = _finder.awaited.get(module.__name__)
        if tell is None:
            return
        forget(module.__name__)
        try:
            tell(module)
        except Exception:
            _log.exception("%s was imported but cannot be hooked; its calls go unrecorded", module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_finder = _Finder()
