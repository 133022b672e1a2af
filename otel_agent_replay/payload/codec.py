"""Typed JSON: Python values as bytes that come back as the same values. First form: JSON kinds only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.errors import CodecError

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_dumps = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Encoded:
    """The bytes of a value; `round_trips` is False when decoding gives something else, and `notes` say what."""

    data: bytes
    round_trips: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptAsText:
    """Stands for a value that could not be kept: its class, and a bounded text of it."""

    type: str
    text: str


def encode(value: Any) -> Encoded:
    """Return `value` as typed JSON, taken by value. Never raises."""
    notes: list[str] = []

    def keep(other: Any) -> Any:
        name = f"{type(other).__module__}:{type(other).__qualname__}"
        notes.append(f"{name} kept as text only")
        return {"$type": "text_only", "class": name, "text": _ADDRESS.sub("", repr(other))[:200]}

    data = json.dumps(value, default=keep, separators=(",", ":")).encode()
    return Encoded(data, not notes, tuple(notes))


def decode(data: bytes) -> Any:
    """Return the value of typed JSON. Raises CodecError for other bytes."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise CodecError(f"not typed JSON: {error}") from error


def encode_call(args: Sequence[Any], kwargs: dict[str, Any], *, skip_self: bool = False) -> Encoded:
    """Return the arguments of a call as typed JSON; `skip_self` leaves the first one out."""
    return encode({"args": list(args[1:] if skip_self else args), "kwargs": kwargs})


def decode_call(data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return (args, kwargs) of what `encode_call` wrote. Raises CodecError."""
    value = decode(data)
    try:
        return tuple(value["args"]), dict(value["kwargs"])
    except (TypeError, KeyError) as error:
        raise CodecError("not the arguments of a call") from error
