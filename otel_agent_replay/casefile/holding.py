"""What "must hold at least" means for values of JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def holds(given: Any, wanted: Any) -> bool:
    """Whether `given` has everything that `wanted` has: members of mappings, all items of lists.

    >>> holds({"id": 17, "state": "lost"}, {"id": 17})
    True
    """
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(name in given and holds(given[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        same_length = isinstance(given, (list, tuple)) and len(given) == len(wanted)
        return same_length and all(holds(one, other) for one, other in zip(given, wanted, strict=True))
    return bool(given == wanted)
