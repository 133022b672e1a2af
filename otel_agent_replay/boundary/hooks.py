"""Attributes replaced by hooks, and put back.

Every module that intercepts by replacing an attribute keeps a `Hooks`; `bound_names` learns from it which
originals the application may hold under names of its own.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import platform
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
_ABSENT = object()


class Hooks:
    """Replacements made, in order. `undo` puts the originals back where the hook is still in place."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []
        self._in_types: list[tuple[type, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._made or self._in_types)

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """The originals that a name may be bound to, each with its hook."""
        return [(original, hook) for _, _, original, hook in self._made if original is not _ABSENT]

    def replace(self, owner: Any, name: str, hook: Any) -> None:
        """Put `hook` where `owner.name` is; `owner` is a module or a class written in Python."""
        original = vars(owner).get(name, _ABSENT)
        setattr(owner, name, hook)
        self._made.append((owner, name, original, hook))

    def replace_in_type(self, owner: type, name: str, hook: Any) -> None:
        """Put `hook` into the dict of a type written in C, which refuses `setattr`.

        Raises RuntimeError where the interpreter does not allow it; nothing is changed then.
        """
        original = vars(owner)[name]
        _write_in_type(owner, name, hook)
        self._in_types.append((owner, name, original))
        if vars(owner)[name] is not hook:
            raise RuntimeError(f"{owner.__name__}.{name} cannot be replaced in this interpreter")

    def undo(self) -> None:
        """Put the originals back, last first; where another hook lies over ours, both stay and ours passes through."""
        for owner, name, original, hook in reversed(self._made):
            if vars(owner).get(name) is not hook:
                continue
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        for kind, name, original in reversed(self._in_types):
            _write_in_type(kind, name, original)
        self._made.clear()
        self._in_types.clear()


def _write_in_type(owner: type, name: str, value: Any) -> None:
    if platform.python_implementation() != "CPython":
        raise RuntimeError(
            f"types written in C can only be hooked in CPython, not in {platform.python_implementation()}"
        )
    members = gc.get_referents(vars(owner))[0]
    if type(members) is not dict or name not in members:
        raise RuntimeError(f"the dict of {owner.__name__} is out of reach in this interpreter")
    members[name] = value
    # The interpreter caches look-ups by type; this call tells it that they changed.
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def looks_like(original: Any) -> Callable[[_F], _F]:
    """Return a decorator that gives a hook the name, documentation and home of what it replaces."""

    def dress(hook: _F) -> _F:
        functools.update_wrapper(hook, original, updated=())
        # `inspect.unwrap` would lead callers around the hook.
        del hook.__wrapped__  # type: ignore[attr-defined]
        return hook

    return dress
