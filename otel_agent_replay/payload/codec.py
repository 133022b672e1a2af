"""Typed JSON: Python values as bytes that come back as the same values, classes included. Never pickle.

What JSON holds exactly is plain JSON; everything else is an object with a `$type`. What cannot be kept is kept
as its class and a bounded text, and the encoding says so at once, with the path. Equal values give equal bytes
in every process (sets are sorted, memory addresses left out), so that digests can be compared.

>>> decode(encode({"when": (1, 2.5), "who": {"ann"}}).data)
{'when': (1, 2.5), 'who': {'ann'}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import orjson

from otel_agent_replay.errors import CodecError
from otel_agent_replay.payload.classes import class_name
from otel_agent_replay.payload.decoding import Decoder
from otel_agent_replay.payload.encoding import MAX_VALUES, Encoder, TooLarge, dump, is_plain
from otel_agent_replay.payload.kept import KeptAsText

__all__ = ["Encoded", "KeptAsText", "decode", "decode_call", "encode", "encode_call"]

MAX_BYTES = 64 * 1024 * 1024
"""The largest encoding that is kept."""


class Encoded(NamedTuple):
    """The bytes of a value; `round_trips` is False when decoding gives something else, and `notes` say what.

    A note is a path and a sentence: `kwargs.session: app.db.Session kept as text only`. A tuple, because it is made
    twice a call.
    """

    data: bytes
    round_trips: bool = True
    notes: tuple[str, ...] = ()


def encode(value: Any) -> Encoded:
    """Return `value` as typed JSON, taken by value, now. Never raises.

    Bounds: MAX_DEPTH levels, MAX_VALUES parts, MAX_BYTES; what exceeds them is noted.
    """
    kind = type(value)
    if kind is dict or kind is list:
        return _finish_plain(value) if is_plain(value) else _encode_slowly(value)
    if kind is str or kind is bool or value is None:
        return _finish_plain(value)
    return _encode_slowly(value)


def encode_call(args: tuple[Any, ...], kwargs: Mapping[str, Any], *, skip_self: bool = False) -> Encoded:
    """Return the arguments of a call as typed JSON; `skip_self` leaves the first one (a method's object) out."""
    if skip_self:
        args = args[1:]
    call = {"args": list(args), "kwargs": dict(kwargs)}
    if is_plain(call):
        return _finish_plain(call)
    return _encode_slowly(call)


def _finish_plain(tree: Any) -> Encoded:
    try:
        data = orjson.dumps(tree)
    except orjson.JSONEncodeError:  # a lone surrogate somewhere, or an integer beyond 64 bits
        return _encode_slowly(tree)
    if len(data) > MAX_BYTES:
        return _given_up(tree, f"{len(data)} bytes encoded, {MAX_BYTES} are kept")
    return Encoded(data)


def _encode_slowly(value: Any) -> Encoded:
    encoder = Encoder()
    try:
        data = dump(encoder.value(value, None)).encode()
    except TooLarge:
        return _given_up(value, f"more than {MAX_VALUES} values in it")
    except Exception as error:
        return _given_up(value, f"{type(error).__name__}: {error}")
    if len(data) > MAX_BYTES:
        return _given_up(value, f"{len(data)} bytes encoded, {MAX_BYTES} are kept")
    return Encoded(data, not encoder.notes, tuple(encoder.notes))


def _given_up(value: Any, why: str) -> Encoded:
    name = class_name(type(value))
    tag = {"$type": "text_only", "class": name, "text": "<not kept>"}
    return Encoded(dump(tag).encode(), False, (f"{name} not kept: {why.encode('ascii', 'replace').decode()}",))


def _reject(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


_exactly = json.JSONDecoder(parse_constant=_reject).decode
_MARKS = bytes(ord("0") if byte in b"0123456789" else byte if byte == ord("$") else ord(" ") for byte in range(256))
_LONG_NUMBER = "0" * 19


def decode(data: bytes) -> Any:
    """Return the value of typed JSON. Raises CodecError, with the path, for bytes that are none.

    What others wrote may hold more than `encode` writes: integers beyond 64 bits, which the quick parser would round,
    and halves of surrogate pairs, which it refuses.
    """
    try:
        marks = data.translate(_MARKS).decode("latin-1")  # looking into text takes a third of the time
        try:
            tree = orjson.loads(data) if _LONG_NUMBER not in marks else _exactly(data.decode())
        except orjson.JSONDecodeError:
            tree = _exactly(data.decode())
        return tree if "$" not in marks or b'"$type"' not in data else Decoder().value(tree, None)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"value: not typed JSON: {error}") from error


def decode_call(data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return (args, kwargs) of what `encode_call` wrote. Raises CodecError."""
    value = decode(data)
    if type(value) is not dict or type(value.get("args")) is not list or type(value.get("kwargs")) is not dict:
        raise CodecError("value: not the arguments of a call")
    return tuple(value["args"]), value["kwargs"]
