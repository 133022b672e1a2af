"""What of a protobuf request can be kept when a part of it cannot be decoded. Pure.

Walks the frames of a request (request > resource group > scope group > span or log record, all field numbers alike for
spans and logs) and leaves out the innermost messages that are broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

_RESOURCE_GROUPS, _SCOPE_GROUPS, _ITEMS = 1, 2, 2  # field numbers
_LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}


def salvaged(data: bytes, message_class: Any) -> tuple[Any, int]:
    """Return the message of what can be decoded and how many items were left out.

    Raises ValueError when its outer frames are broken, or nothing in it can be decoded.
    """
    path = (_RESOURCE_GROUPS, _SCOPE_GROUPS, _ITEMS)
    kept, left_out = _filtered(data, path, message_class)
    try:
        message = message_class.FromString(kept)
    except DecodeError as error:
        raise ValueError("more than single spans of it cannot be decoded") from error
    if not kept or not left_out:
        raise ValueError("nothing of it can be decoded")
    return message, left_out


def _filtered(data: bytes, path: tuple[int, ...], message_class: Any) -> tuple[bytes, int]:
    parts: list[bytes] = []
    left_out = 0
    for number, whole, inner in _fields(data):
        if number != path[0] or inner is None:
            parts.append(whole)
        elif len(path) == 1:
            if _is_item(inner, message_class):
                parts.append(whole)
            else:
                left_out += 1
        else:
            kept, lost = _filtered(inner, path[1:], message_class)
            left_out += lost
            parts.append(whole if not lost else _framed(number, kept))
    return b"".join(parts), left_out


def _is_item(data: bytes, message_class: Any) -> bool:
    try:
        message_class.FromString(_framed(1, _framed(2, _framed(2, data))))
    except DecodeError:
        return False
    return True


def _framed(number: int, data: bytes) -> bytes:
    return bytes((number << 3 | _LENGTH_DELIMITED,)) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield (number, the whole field, its content where it is length-delimited). Raises ValueError where it is cut."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _read_varint(data, at)
        wire_type = tag & 7
        inner: bytes | None = None
        if wire_type == _LENGTH_DELIMITED:
            length, at = _read_varint(data, at)
            inner = data[at : at + length]
            at += length
        elif wire_type == 0:
            _, at = _read_varint(data, at)
        elif wire_type in _FIXED:
            at += _FIXED[wire_type]
        else:
            raise ValueError("a frame of it is broken")
        if at > len(data) or not tag >> 3:
            raise ValueError("a frame of it is broken")
        yield tag >> 3, data[begin:at], inner


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("it was cut")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a frame of it is broken")
