"""A quicker way to make what is frozen.

Owns one trick. A frozen dataclass sets each field through `object.__setattr__`, which costs four times a plain
assignment, and a call is made of several of them. Knows no class of ours.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def maker_of(frozen: type[_T]) -> type[_T]:
    """Return what makes instances of a frozen, slotted dataclass from the same arguments, at a third of the cost.

    An instance is filled as one of an open twin class and then told that it is a frozen one: their slots are the same.
    """

    def freeze(self: Any) -> None:
        self.__class__ = frozen

    columns = []
    for one in fields(cast("Any", frozen)):
        if one.default is not MISSING:
            columns.append((one.name, Any, field(default=one.default)))
        elif one.default_factory is not MISSING:
            columns.append((one.name, Any, field(default_factory=one.default_factory)))
        else:
            columns.append((one.name, Any, field()))
    twin = make_dataclass(f"_{frozen.__name__}", columns, namespace={"__post_init__": freeze}, slots=True)
    return cast("type[_T]", twin)
