"""A quicker way to make what is frozen.

Owns one trick. A frozen dataclass sets each field through `object.__setattr__`, which costs four times a plain
assignment, and a call is made of several of them. Knows no class of ours.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def maker_of(frozen: type[_T]) -> type[_T]:
    """Return what makes instances of a frozen, slotted dataclass from the same arguments, at a quarter of the cost.

    An instance is filled as one of an open twin class and then told that it is a frozen one: their slots are the same.
    The maker is a function, written like the `__init__` of a dataclass: calling one costs half of calling a class.
    """
    columns = fields(cast("Any", frozen))
    # Not by `make_dataclass`: it looks for a signature to make a docstring of, which costs 1 ms at every start.
    twin = type(f"_{frozen.__name__}", (), {"__slots__": tuple(one.name for one in columns)})
    known: dict[str, Any] = {"_twin": twin, "_frozen": frozen, "_missing": MISSING}
    given, lines = [], ["made = _twin()"]
    for one in columns:
        default = f"_default_{one.name}"
        value = one.name
        if one.default is not MISSING:
            known[default] = one.default
            given.append(f"{one.name}={default}")
        elif one.default_factory is not MISSING:
            known[default] = one.default_factory
            given.append(f"{one.name}=_missing")
            value = f"{default}() if {one.name} is _missing else {one.name}"
        else:
            given.append(one.name)
        lines.append(f"made.{one.name} = {value}")
    body = "\n ".join([*lines, "made.__class__ = _frozen", "return made"])
    exec(f"def make({', '.join(given)}):\n {body}\n", known)  # noqa: S102 - of our own words and field names, as `dataclasses` does
    known["make"].__name__ = f"make_{frozen.__name__}"
    return cast("type[_T]", known["make"])
