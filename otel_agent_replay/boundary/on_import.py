"""Notices when the host imports a library that hooks wait for.

A library that the host never imports is never imported by us, and no error of ours breaks an import of the host's. Owns
the finder and the loader that pass the real ones through; what is done with the module is the caller's.
"""

from __future__ import annotations

import importlib.abc
import logging
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_log = logging.getLogger("otel_agent_replay")


class ImportNotice(importlib.abc.MetaPathFinder):
    """Tells of each module that `awaits` says is waited for, right after it has run.

    One question for every other import.
    """

    def __init__(self, awaits: Callable[[str], bool], tell: Callable[[ModuleType], None]) -> None:
        self._awaits = awaits
        self._tell = tell

    @property
    def is_on(self) -> bool:
        """Whether it stands in front of the interpreter's finders."""
        return self in sys.meta_path

    def turn_on(self) -> None:
        """Stand in front of the interpreter's finders; again changes nothing."""
        if not self.is_on:
            sys.meta_path.insert(0, self)

    def turn_off(self) -> None:
        """Leave the interpreter's finders alone."""
        if self.is_on:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the real finder's spec with a loader that tells, for a module that is waited for."""
        if not self._awaits(fullname):
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _NoticingLoader(spec.loader, self._noticed)
                return spec
        return None

    def _noticed(self, module: ModuleType) -> None:
        if not self.is_on:
            return
        try:
            self._tell(module)
        except Exception:
            _log.exception("%s was imported, but cannot be hooked", module.__name__)


def loaded(name: str) -> ModuleType | None:
    """Return the module of that name if its import is over."""
    module = sys.modules.get(name)
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None
    return module


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
