"""Names of the application that hold an original from before we came: `from time import time`.

The application's modules (and those of listed packages) are scanned for them: module names, class attributes,
default arguments, and what generated code closed over (a dataclass's default factories). Each is bound to the hook
and put back on uninstall; names bound while the hooks were in place are put back with them. Nothing is imported,
no lazy module is woken, and no attribute is computed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any

from otel_agent_replay.boundary.callers import is_application_file
from otel_agent_replay.model import CoverageEntry

_DEPTH = 4  # how deep classes within classes are followed
_OURSELVES = "otel_agent_replay"
_attribute = object.__getattribute__

_Swaps = Mapping[int, tuple[Any, Any]]  # by identity: originals need not be hashable, and equal is not the same

_bound: list[tuple[Any, Any]] = []  # the pairs of original and hook in force
_in_classes: list[tuple[type, str, Any, Any]] = []  # class, attribute, what it held, what it holds now


def install(pairs: Iterable[tuple[Any, Any]]) -> list[CoverageEntry]:
    """Bind the application's names for each original to its hook; `pairs` are (original, hook)."""
    for original, hook in pairs:
        if not any(original is known for known, _ in _bound):
            _bound.append((original, hook))
    swaps = {id(original): (original, hook) for original, hook in _bound}
    changed = sum(_rebind_names(members, swaps) + _rebind_code(members, swaps) for members in _modules(everyones=False))
    return [
        CoverageEntry("bound_names", "captured", f"{changed} names bound before the hooks came"),
        CoverageEntry("bound_names.hidden", "not_captured", "originals held in lists, dicts, instances or C code"),
    ]


def uninstall() -> None:
    """Bind every name that holds a hook to its original again, in whatever module."""
    swaps = {id(hook): (hook, original) for original, hook in _bound}
    for kind, name, before, now in reversed(_in_classes):
        if vars(kind).get(name) is now:
            setattr(kind, name, before)
    _in_classes.clear()
    for members in _modules(everyones=True):
        _rebind_names(members, swaps)
    for members in _modules(everyones=False):
        _rebind_code(members, swaps)
    _in_classes.clear()
    _bound.clear()


def _modules(*, everyones: bool) -> Iterator[dict[str, Any]]:
    """Yield the names of each module that is the application's, or of `everyones` but ours."""
    # A copy is made in one go; a list of the items may meet an import that a collection of garbage sets off.
    for name, module in sys.modules.copy().items():
        if not issubclass(type(module), ModuleType) or name.partition(".")[0] == _OURSELVES:
            continue
        members: dict[str, Any] = _attribute(module, "__dict__")
        file = members.get("__file__")
        if type(file) is str:
            if everyones or is_application_file(file):
                yield members
        elif name == "__main__":  # a notebook or a prompt; other modules without a file have no code of their own
            yield members


def _swapped(value: Any, swaps: _Swaps) -> Any:
    swap = swaps.get(id(value))
    return value if swap is None or swap[0] is not value else swap[1]


def _rebind_names(members: dict[str, Any], swaps: _Swaps) -> int:
    changed = 0
    for name, value in list(members.items()):
        new = _swapped(value, swaps)
        if new is not value:
            members[name] = new
            changed += 1
    return changed


def _rebind_code(members: dict[str, Any], swaps: _Swaps) -> int:
    """Rebind in the functions and classes that the module defines."""
    changed = 0
    for value in list(members.values()):
        if type(value) is FunctionType:
            changed += _rebind_function(value, members, swaps)
        elif isinstance(value, type) and value.__module__ == members.get("__name__"):
            changed += _rebind_class(value, members, swaps, _DEPTH)
    return changed


def _rebind_class(kind: type, members: dict[str, Any], swaps: _Swaps, depth: int) -> int:
    changed = 0
    for name, value in list(vars(kind).items()):
        wrapper = type(value) if type(value) in {staticmethod, classmethod} else None
        held = value if wrapper is None else value.__func__
        new = _swapped(held, swaps)
        if new is not held:
            changed += _set_in_class(kind, name, value, wrapper(new) if wrapper else _unbinding(held, new))
        elif type(held) is FunctionType:
            changed += _rebind_function(held, members, swaps)
        elif isinstance(held, type) and depth and held is not kind and held.__module__ == kind.__module__:
            changed += _rebind_class(held, members, swaps, depth - 1)
    return changed


def _unbinding(original: Any, hook: Any) -> Any:
    """Return the hook so that it binds to instances only if the original did: functions in C do not."""
    return hook if type(original) is FunctionType else staticmethod(hook)


def _set_in_class(kind: type, name: str, before: Any, now: Any) -> int:
    try:
        setattr(kind, name, now)
    except (TypeError, AttributeError):  # a class that refuses, an enum say
        return 0
    _in_classes.append((kind, name, before, now))
    return 1


def _rebind_function(function: FunctionType, members: dict[str, Any], swaps: _Swaps) -> int:
    if function.__globals__ is not members:  # another module's, or one of our hooks
        return 0
    changed = 0
    defaults = function.__defaults__
    if defaults and any(id(value) in swaps for value in defaults):
        function.__defaults__ = tuple(_swapped(value, swaps) for value in defaults)
        changed += 1
    keywords = function.__kwdefaults__
    if keywords and any(id(value) in swaps for value in keywords.values()):
        function.__kwdefaults__ = {name: _swapped(value, swaps) for name, value in keywords.items()}
        changed += 1
    return changed + sum(_rebind_cell(cell, swaps) for cell in function.__closure__ or ())


def _rebind_cell(cell: CellType, swaps: _Swaps) -> int:
    try:
        value = cell.cell_contents
    except ValueError:  # still empty
        return 0
    new = _swapped(value, swaps)
    if new is value:
        return 0
    cell.cell_contents = new
    return 1
