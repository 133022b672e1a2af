"""Names of classes, and classes by name.

A class is looked up only in modules that are loaded already, through their plain dictionaries: reading a
recording imports nothing and runs no module's `__getattr__`.
"""

from __future__ import annotations

import sys


def class_name(cls: type) -> str:
    """Return `module:qualified.name`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def find_class(name: str) -> type | None:
    """Return the loaded class called `module:qualified.name`, or None."""
    module_name, _, qualified = name.partition(":")
    found: object = sys.modules.get(module_name)
    for part in qualified.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def is_findable(cls: type) -> bool:
    """Return whether `find_class` gives `cls` back for its own name (not for a class made inside a function)."""
    return find_class(class_name(cls)) is cls
