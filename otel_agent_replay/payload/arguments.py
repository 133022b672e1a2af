"""A call's arguments as typed JSON, where all of them are plain scalars: the quick path of most tools.

Owns a shortcut and no form of its own: what it writes is what `codec.encode` writes of the same arguments by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from otel_agent_replay.payload.encoding import AS_THEY_ARE, LARGEST_INT

_LONGEST = 1 << 20  # bytes; more is left to whoever knows the bounds


class ScalarArguments:
    """Writes the arguments of one function, whose positional `parameters` have these names.

    >>> ScalarArguments(("order_id", "cents")).encoded(("17",), {"cents": 5})
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
        values = dict(zip(names, given))  # noqa: B905 - fewer are given where some have defaults
        if named:
            values |= named
            if len(values) != len(given) + len(named) or "$type" in named:  # given twice, or it would read as a tag
                return None
        for value in values.values():
            kind = type(value)
            if kind is int:
                if not -LARGEST_INT <= value <= LARGEST_INT:
                    return None
            elif kind is float:
                if value - value != 0.0:  # NaN or an infinity
                    return None
            elif kind not in AS_THEY_ARE:
                return None
        try:
            data = orjson.dumps(values)
        except orjson.JSONEncodeError:  # a lone surrogate somewhere
            return None
        return data if len(data) <= _LONGEST else None
