"""Tags of numpy's arrays and scalars. numpy is used only where the value or the recording already needs it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_agent_replay.payload.where import Where

if TYPE_CHECKING:
    from otel_agent_replay.payload.decoding import Decoder
    from otel_agent_replay.payload.encoding import Encoder

Tag = dict[str, Any]

_READABLE_KINDS = "biuSU"  # kinds whose Python form is exact and readable; floats up to eight bytes too


def is_numpy(value: object) -> bool:
    """Return whether it is an array or scalar of numpy's own classes (not of a subclass)."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic))


def write_numpy(value: Any, encoder: Encoder, where: Where) -> Any:
    """Keep dtype, shape and the bytes in C order; arrays of Python objects item by item."""
    numpy = sys.modules["numpy"]
    dtype = value.dtype
    if dtype.names is None and not dtype.hasobject and numpy.dtype(dtype.str) != dtype:
        return encoder.kept_as_text(value, where, f"numpy dtype {dtype} has no portable name; kept as text only")
    kind = encoder.value(numpy.lib.format.dtype_to_descr(dtype), where)
    if isinstance(value, numpy.generic):
        return {"$type": "numpy_scalar", "dtype": kind, **_scalar_fields(value, encoder, where)}
    tag: Tag = {"$type": "ndarray", "dtype": kind, "shape": list(value.shape)}
    if dtype.hasobject:
        tag["items"] = encoder.items(value.ravel().tolist(), where)
    else:
        tag["base64"] = base64.b64encode(value.tobytes()).decode("ascii")
    return tag


def _scalar_fields(value: Any, encoder: Encoder, where: Where) -> Tag:
    kind = value.dtype.kind
    if kind in _READABLE_KINDS or (kind == "f" and value.dtype.itemsize <= 8):
        return {"value": encoder.value(value.item(), where)}
    return {"base64": base64.b64encode(value.tobytes()).decode("ascii")}


def read_scalar(tag: Tag, decoder: Decoder, where: Where) -> Any:
    """Give the scalar back."""
    numpy = _numpy()
    dtype = _dtype(tag, decoder, where)
    if "value" in tag:
        return numpy.array(decoder.value(tag["value"], where), dtype=dtype)[()]
    return numpy.frombuffer(base64.b64decode(tag["base64"], validate=True), dtype=dtype)[0]


def read_array(tag: Tag, decoder: Decoder, where: Where) -> Any:
    """Give the array back, writable and in C order."""
    numpy = _numpy()
    dtype = _dtype(tag, decoder, where)
    shape = tuple(tag["shape"])
    if "items" in tag:
        flat = numpy.empty(len(tag["items"]), dtype=dtype)
        for index, item in enumerate(decoder.items(tag["items"], where)):
            flat[index] = item
        return flat.reshape(shape)
    data = base64.b64decode(tag["base64"], validate=True)
    return numpy.ndarray(shape, dtype, buffer=bytearray(data))


def _dtype(tag: Tag, decoder: Decoder, where: Where) -> Any:
    return _numpy().lib.format.descr_to_dtype(decoder.value(tag["dtype"], where))


def _numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise ValueError("the value is a numpy array and numpy is not installed here") from error
    return np


READERS: dict[str, Callable[[Tag, Decoder, Where], Any]] = {"ndarray": read_array, "numpy_scalar": read_scalar}
