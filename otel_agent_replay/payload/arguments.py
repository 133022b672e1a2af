"""A call's arguments as typed JSON, where all of them are plain scalars: the quick path of most tools.

Owns a shortcut and no form of its own: what it writes is what `codec.encode` writes of the same arguments by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

from otel_agent_replay.payload.encoding import LARGEST_INT

_LONGEST = 1 << 20  # bytes; more is left to whoever knows the bounds
_WORDS = {None: "null", True: "true", False: "false"}


class ScalarArguments:
    """Writes the arguments of one function, whose positional `parameters` have these names.

    >>> ScalarArguments(("order_id", "cents")).encoded(("17",), {"cents": 5})
    b'{"order_id":"17","cents":5}'
    """

    __slots__ = ("_keys", "_places")

    def __init__(self, parameters: Sequence[str]) -> None:
        self._keys = tuple(f"{encode_basestring(name)}:" for name in parameters)
        self._places = {name: number for number, name in enumerate(parameters)}

    def encoded(self, given: Sequence[Any], named: Mapping[str, Any]) -> bytes | None:
        """Return the arguments `given` by position and `named`, or None when they are not all so plain."""
        keys = self._keys
        if len(given) > len(keys):
            return None
        pairs: Iterable[tuple[str, Any]] = zip(keys, given)  # noqa: B905 - fewer are given where some have defaults
        if named:
            places, first = self._places, len(given)
            pairs = [*pairs]
            for name, value in named.items():
                place = places.get(name, -1)
                if place < first:  # unknown here, or given twice
                    return None
                pairs.append((keys[place], value))
        parts = []
        for key, value in pairs:
            kind = type(value)
            if kind is str:
                parts.append(key + encode_basestring(value))
            elif kind is int:
                if not -LARGEST_INT <= value <= LARGEST_INT:
                    return None
                parts.append(key + repr(value))
            elif kind is bool or value is None:
                parts.append(key + _WORDS[value])
            elif kind is float and value - value == 0.0:  # false for NaN and the infinities
                parts.append(key + repr(value))
            else:
                return None
        try:
            data = f"{{{','.join(parts)}}}".encode()
        except UnicodeEncodeError:  # a lone surrogate somewhere
            return None
        return data if len(data) <= _LONGEST else None
