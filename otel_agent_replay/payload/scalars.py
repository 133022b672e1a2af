"""Tags of single values that hold no other value: what is written beside how it is read.

A tag is an object `{"$type": name, ...}`. `write` gives its fields, plain JSON; `read` takes the tag. Reading
raises ValueError, TypeError or KeyError for fields that `write` does not make.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import pathlib
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

Tag = dict[str, Any]


class Scalar(NamedTuple):
    """One class of values, its tag, and the two directions."""

    cls: type
    tag: str
    write: Callable[[Any], Tag]
    read: Callable[[Tag], Any]


def binary_fields(value: bytes) -> Tag:
    """Return `{"text": ...}` for bytes that are UTF-8, `{"base64": ...}` for others.

    Text where it is text: people read it, and redaction finds in it what it must find.
    """
    try:
        return {"text": value.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def binary_of(tag: Tag) -> bytes:
    """Return the bytes that `binary_fields` kept."""
    text = tag.get("text")
    return text.encode("utf-8") if isinstance(text, str) else base64.b64decode(tag["base64"], validate=True)


def text_fields(value: str) -> Tag:
    """Return the fields of any text, lone surrogates (which have no UTF-8 form) included."""
    return binary_fields(value.encode("utf-8", "surrogatepass"))


def text_of(tag: Tag) -> str:
    """Return the text that `text_fields` kept."""
    return binary_of(tag).decode("utf-8", "surrogatepass")


# --- numbers ----------------------------------------------------------------------------------------------

_DECIMAL_BITS = 4096  # beyond it Python refuses to print an int in decimal, and nobody reads it


def _write_int(value: int) -> Tag:
    # Only integers beyond 64 bits come here: many readers of JSON would round them.
    return {"value": str(value) if value.bit_length() < _DECIMAL_BITS else hex(value)}


def _read_decimal(tag: Tag) -> decimal.Decimal:
    try:
        return decimal.Decimal(tag["value"])
    except decimal.InvalidOperation as error:
        raise ValueError(f"not a decimal number: {tag['value']!r}") from error


# --- paths ------------------------------------------------------------------------------------------------

_PATHS: dict[str, type[pathlib.PurePath]] = {
    cls.__name__: cls
    for cls in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
}


def write_path(value: pathlib.PurePath) -> Tag:
    """Keep the text of a path and its flavour."""
    name = next(name for name, cls in reversed(_PATHS.items()) if isinstance(value, cls))
    return {"class": name, **text_fields(str(value))}


def _read_path(tag: Tag) -> pathlib.PurePath:
    cls = _PATHS[tag["class"]]
    if issubclass(cls, pathlib.Path) and not isinstance(pathlib.Path(), cls):
        # Another system's path: shown by the pure class of its flavour, which every system has.
        cls = pathlib.PureWindowsPath if cls is pathlib.WindowsPath else pathlib.PurePosixPath
    return cls(text_of(tag))


# --- time -------------------------------------------------------------------------------------------------


def duration_fields(value: dt.timedelta) -> list[int]:
    """Return days, seconds and microseconds."""
    return [value.days, value.seconds, value.microseconds]


def _write_timezone(value: dt.timezone) -> Tag:
    arguments: Any = value.__reduce__()[1]
    offset, *name = arguments
    tag: Tag = {"offset": duration_fields(offset)}
    return {**tag, **text_fields(name[0])} if name else tag


def _read_timezone(tag: Tag) -> dt.timezone:
    offset = dt.timedelta(*tag["offset"])
    if "text" in tag or "base64" in tag:
        return dt.timezone(offset, text_of(tag))
    return dt.timezone(offset)


SCALARS: tuple[Scalar, ...] = (
    Scalar(int, "int", _write_int, lambda tag: int(tag["value"], 0)),
    Scalar(float, "float", lambda value: {"value": repr(value)}, lambda tag: float(tag["value"])),
    Scalar(
        complex,
        "complex",
        lambda value: {"value": [repr(value.real), repr(value.imag)]},
        lambda tag: complex(*(float(part) for part in tag["value"])),
    ),
    Scalar(str, "text", text_fields, text_of),
    Scalar(bytes, "bytes", binary_fields, binary_of),
    Scalar(bytearray, "bytearray", lambda value: binary_fields(bytes(value)), lambda tag: bytearray(binary_of(tag))),
    Scalar(decimal.Decimal, "decimal", lambda value: {"value": str(value)}, _read_decimal),
    Scalar(uuid.UUID, "uuid", lambda value: {"value": str(value)}, lambda tag: uuid.UUID(tag["value"])),
    Scalar(type(...), "ellipsis", lambda _: {}, lambda _: ...),
    Scalar(
        dt.date, "date", lambda value: {"value": value.isoformat()}, lambda tag: dt.date.fromisoformat(tag["value"])
    ),
    Scalar(
        dt.timedelta,
        "timedelta",
        lambda value: {"value": duration_fields(value)},
        lambda tag: dt.timedelta(*tag["value"]),
    ),
    Scalar(dt.timezone, "timezone", _write_timezone, _read_timezone),
    *(Scalar(cls, "path", write_path, _read_path) for cls in _PATHS.values()),
)
