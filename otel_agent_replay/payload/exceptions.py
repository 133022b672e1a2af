"""The state of an exception, and an exception from its state.

An exception comes back without its own `__init__`, which may want arguments that nobody kept: its builtin
ancestor makes it, then its arguments, slots and dictionary are set.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from otel_agent_replay.payload.classes import class_name, is_findable
from otel_agent_replay.payload.objects import loaded
from otel_agent_replay.payload.where import Where

if TYPE_CHECKING:
    from otel_agent_replay.payload.decoding import Decoder
    from otel_agent_replay.payload.encoding import Encoder

Tag = dict[str, Any]

_PLAIN = (object, BaseException, Exception)
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_SET_BY_NEW = frozenset({"exceptions", "message"})  # of exception groups: read-only, made from the arguments


def state_of(error: BaseException) -> dict[str, Any]:
    """Return {"args": [...], "dict": {...}, "slots": {...}} of an exception, as values.

    Slots are what builtin exceptions keep outside the dictionary: `errno`, `filename`, `object`, `code` ...
    """
    state: dict[str, Any] = {"args": list(error.args), "dict": dict(error.__dict__)}
    names = (name for cls in type(error).__mro__ if cls not in _PLAIN for name in _slot_names(cls))
    slots = {name: value for name in names if (value := getattr(error, name, None)) is not None}
    return {**state, "slots": slots} if slots else state


def _slot_names(cls: type) -> list[str]:
    return [
        name
        for name, descriptor in vars(cls).items()
        if isinstance(descriptor, _SLOTS) and not name.startswith("__") and name not in _SET_BY_NEW
    ]


def from_state(cls: type[BaseException], state: dict[str, Any]) -> BaseException:
    """Return an exception of class `cls` with that state, its `__init__` not called."""
    args = tuple(state.get("args", ()))
    builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    error: BaseException = builtin.__new__(cls, *args)
    error.args = args
    for name, value in state.get("slots", {}).items():
        object.__setattr__(error, name, value)
    error.__dict__.update(state.get("dict", {}))
    return error


def write_exception(value: BaseException, encoder: Encoder, where: Where) -> Any:
    """Keep the class, the text and the state of an exception that is a value."""
    cls = type(value)
    tag = {part: encoder.value(item, (where, part)) for part, item in state_of(value).items()}
    if not is_findable(cls):
        why = f"{cls.__module__}.{cls.__qualname__} is not found by its name (made inside a function?)"
        return encoder.kept_as_text(value, where, why, tag)
    return {"$type": "exception", "class": class_name(cls), **tag}


def read_exception(tag: Tag, decoder: Decoder, where: Where) -> BaseException:
    """Give the exception back, without traceback and causes."""
    cls = loaded(tag, BaseException, where, decoder)
    names = ("args", "dict", "slots")
    return from_state(cls, {name: decoder.value(tag[name], (where, name)) for name in names if name in tag})


READERS = {"exception": read_exception}
