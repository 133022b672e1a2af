"""A call's arguments as typed JSON, where all of them are JSON as they are: the quick path of most tools.

Owns a shortcut and no form of its own: what it writes is what `codec.encode` writes of the same arguments by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from otel_agent_replay.payload.encoding import AS_THEY_ARE, is_plain

_LONGEST = 1 << 20  # bytes; more is left to whoever knows the bounds


class PlainArguments:
    """Writes the arguments of one function, whose positional `parameters` have these names.

    >>> PlainArguments(("order_id", "cents")).encoded(("17",), {"cents": 5})
    b'{"order_id":"17","cents":5}'
    """

    __slots__ = ("_names",)

    def __init__(self, parameters: Sequence[str]) -> None:
        self._names = tuple(parameters)

    def encoded(self, given: Sequence[Any], named: Mapping[str, Any]) -> bytes | None:
        """Return the arguments `given` by position and `named`, or None when they are not all so plain."""
        names = self._names
        if len(given) > len(names):
            return None
        values: dict[str, Any] = {}
        scalars = True
        for name, value in zip(names, given):  # noqa: B905 - fewer are given where some have defaults
            values[name] = value
            if type(value) not in AS_THEY_ARE:
                scalars = False
        if named:
            values |= named
            if len(values) != len(given) + len(named) or "$type" in named:  # given twice, or it would read as a tag
                return None
            scalars = scalars and AS_THEY_ARE.issuperset(map(type, named.values()))
        if not scalars and not is_plain(values):
            return None
        try:
            data = orjson.dumps(values)
        except orjson.JSONEncodeError:  # a lone surrogate somewhere, or an integer beyond 64 bits
            return None
        return data if len(data) <= _LONGEST else None
