"""Tags of objects: enums, dataclasses, pydantic and attrs models, named tuples, subclasses of builtins, classes.

Objects come back without their `__init__` or validators: their fields are set as they were. Only classes of the
kind a tag names are filled so, hence bytes cannot make an object of just any class.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_agent_replay.payload.classes import class_name, find_class, is_findable
from otel_agent_replay.payload.where import Where

if TYPE_CHECKING:
    from otel_agent_replay.payload.decoding import Decoder
    from otel_agent_replay.payload.encoding import Encoder

Tag = dict[str, Any]

_set = object.__setattr__
# How each builtin is taken out of an object of a subclass: by the builtin's own methods, which the subclass may hide.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: lambda value: str.__str__(value)[:],
    int: int.__index__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray(bytearray.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}
_PYDANTIC_STATE = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


def write_object(value: Any, encoder: Encoder, where: Where) -> Any:
    """Keep an object of a class that has no tag of its own: by what kind of class it is."""
    cls = type(value)
    if isinstance(value, type):
        return _write_class(value, encoder, where)
    kind = _kind_of(cls)
    if kind is None:
        return encoder.kept_as_text(value, where, f"{_shown(cls)} kept as text only")
    tag = _PARTS[kind](value, encoder, where)
    name, generic = _generic_name(cls)
    if generic:
        tag["generic"] = [encoder.value(part, where) for part in generic]
    elif not is_findable(cls):
        why = f"{_shown(cls)} is not found by its name (made inside a function?); its fields are kept"
        return encoder.kept_as_text(value, where, why, tag)
    return {"$type": kind, "class": name, **tag}


def _shown(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _kind_of(cls: type) -> str | None:
    if issubclass(cls, enum.Enum):
        return "enum"
    if hasattr(cls, "__pydantic_fields_set__") or hasattr(cls, "__pydantic_core_schema__"):
        return "pydantic" if is_pydantic(cls) else "dataclass"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    if hasattr(cls, "__attrs_attrs__"):
        return "attrs"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    if cls is types.SimpleNamespace:
        return "namespace"
    return "subclass" if builtin_of(cls) is not None else None


def is_pydantic(cls: type) -> bool:
    """Return whether `cls` is a model of pydantic 2, without importing it."""
    module = sys.modules.get("pydantic")
    return module is not None and issubclass(cls, module.BaseModel)


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, not in C


def builtin_of(cls: type) -> type | None:
    """Return the builtin that `cls` only adds attributes to (`str` for markupsafe's Markup), or None.

    A class in between that is made in C may hold state of its own, as OrderedDict does.
    """
    base = next((base for base in cls.__mro__ if base in _PLAIN), None)
    for part in cls.__mro__:
        if part not in (base, object) and (vars(part).get("__slots__") or not part.__flags__ & _HEAP_TYPE):
            return None
    return base


# --- what of each kind is kept, and how it is put together again ---------------------------------------------


def _enum_parts(value: enum.Enum, encoder: Encoder, where: Where) -> Tag:
    return {"name": value._name_, "value": encoder.value(value._value_, where)}


def read_enum(tag: Tag, decoder: Decoder, where: Where) -> enum.Enum:
    """Give the member back by its name; a combination of flags by its value."""
    cls: type[enum.Enum] = loaded(tag, enum.Enum, where, decoder)
    name = tag["name"]
    if name in cls.__members__:
        return cls.__members__[name]
    if issubclass(cls, enum.Flag):
        return cls(decoder.value(tag["value"], where))
    raise ValueError(f"{tag['class']} has no member {name!r}")


def _named_fields(names: list[str], value: Any, encoder: Encoder, where: Where) -> Tag:
    missing = object()
    found = ((name, getattr(value, name, missing)) for name in names)
    return {"fields": {name: encoder.value(item, (where, name)) for name, item in found if item is not missing}}


def _dataclass_parts(value: Any, encoder: Encoder, where: Where) -> Tag:
    return _named_fields([field.name for field in dataclasses.fields(value)], value, encoder, where)


def _attrs_parts(value: Any, encoder: Encoder, where: Where) -> Tag:
    return _named_fields([field.name for field in type(value).__attrs_attrs__], value, encoder, where)


def read_fields(tag: Tag, decoder: Decoder, where: Where) -> Any:
    """Give a dataclass or attrs object back."""
    cls = loaded(tag, object, where, decoder)
    wanted = "__dataclass_fields__" if tag["$type"] == "dataclass" else "__attrs_attrs__"
    if not hasattr(cls, wanted):
        raise ValueError(f"{tag['class']} is no {tag['$type']} any more")
    made = object.__new__(cls)
    for name, item in tag["fields"].items():
        _set(made, name, decoder.value(item, (where, name)))
    return made


def _pydantic_parts(value: Any, encoder: Encoder, where: Where) -> Tag:
    tag: Tag = {"fields": {name: encoder.value(item, (where, name)) for name, item in vars(value).items()}}
    given, extra, private = (getattr(value, name, None) for name in _PYDANTIC_STATE)
    tag["given"] = sorted(given or ())
    if extra is not None:
        tag["extra"] = {name: encoder.value(item, (where, name)) for name, item in extra.items()}
    if private is not None:
        kept = {name: item for name, item in private.items() if not _is_undefined(item)}
        tag["private"] = {name: encoder.value(item, (where, name)) for name, item in kept.items()}
    return tag


def _is_undefined(value: object) -> bool:
    return type(value).__name__ == "PydanticUndefinedType"


def read_pydantic(tag: Tag, decoder: Decoder, where: Where) -> Any:
    """Give a model back as it was, validators not run."""
    cls = loaded(tag, object, where, decoder)
    if not is_pydantic(cls):
        raise ValueError(f"{tag['class']} is no pydantic model any more")
    if "generic" in tag:
        parts = tuple(decoder.value(part, where) for part in tag["generic"])
        cls = cls[parts]
    made = object.__new__(cls)
    _set(made, "__dict__", {name: decoder.value(item, (where, name)) for name, item in tag["fields"].items()})
    _set(made, "__pydantic_fields_set__", set(tag["given"]))
    for name, key in (("__pydantic_extra__", "extra"), ("__pydantic_private__", "private")):
        items = tag.get(key)
        kept = None if items is None else {part: decoder.value(item, (where, part)) for part, item in items.items()}
        _set(made, name, kept)
    return made


def _generic_name(cls: type) -> tuple[str, tuple[Any, ...]]:
    """Return the name to look up, and the parameters of a pydantic generic (`Page[Item]` is found as Page)."""
    generic = getattr(cls, "__pydantic_generic_metadata__", None)
    if generic and generic["origin"] is not None and not is_findable(cls):
        origin, parts = generic["origin"], tuple(generic["args"])
        if is_findable(origin) and all(isinstance(part, type) and is_findable(part) for part in parts):
            return class_name(origin), parts
    return class_name(cls), ()


def _namedtuple_parts(value: Any, encoder: Encoder, where: Where) -> Tag:
    return {
        "fields": {name: encoder.value(item, (where, name)) for name, item in zip(value._fields, value, strict=False)}
    }


def read_namedtuple(tag: Tag, decoder: Decoder, where: Where) -> Any:
    """Give a named tuple back."""
    cls = loaded(tag, tuple, where, decoder)
    fields = tag["fields"]
    if list(getattr(cls, "_fields", ())) != list(fields):
        raise ValueError(f"{tag['class']} has other fields now than {', '.join(fields)}")
    return tuple.__new__(cls, [decoder.value(item, (where, name)) for name, item in fields.items()])


def _namespace_parts(value: types.SimpleNamespace, encoder: Encoder, where: Where) -> Tag:
    return {"fields": {name: encoder.value(item, (where, name)) for name, item in vars(value).items()}}


def read_namespace(tag: Tag, decoder: Decoder, where: Where) -> types.SimpleNamespace:
    """Give a SimpleNamespace back."""
    fields = tag["fields"]
    return types.SimpleNamespace(**{name: decoder.value(item, (where, name)) for name, item in fields.items()})


def _subclass_parts(value: Any, encoder: Encoder, where: Where) -> Tag:
    base = builtin_of(type(value))
    if base is None:
        raise AssertionError("only asked for subclasses of builtins")
    plain = _PLAIN[base](value)
    tag: Tag = {"base": base.__name__, "value": encoder.value(plain, where)}
    state = getattr(value, "__dict__", None)
    if state:
        tag["dict"] = {name: encoder.value(item, (where, name)) for name, item in state.items()}
    return tag


def read_subclass(tag: Tag, decoder: Decoder, where: Where) -> Any:
    """Give an object of a subclass of a builtin back, its attributes set."""
    base = next((base for base in _PLAIN if base.__name__ == tag["base"]), None)
    if base is None:
        raise ValueError(f"{tag['base']!r} is no builtin that is kept")
    cls = loaded(tag, base, where, decoder)
    plain = decoder.value(tag["value"], where)
    made: Any
    if base in (list, dict, set, bytearray):
        made = base.__new__(cls)
        base.__init__(made, plain)
    else:
        made = base.__new__(cls, plain)
    for name, item in tag.get("dict", {}).items():
        _set(made, name, decoder.value(item, (where, name)))
    return made


def _write_class(cls: type, encoder: Encoder, where: Where) -> Any:
    if is_findable(cls):
        return {"$type": "class", "class": class_name(cls)}
    return encoder.kept_as_text(cls, where, f"class {_shown(cls)} is not found by its name; kept as text only")


def read_class(tag: Tag, decoder: Decoder, where: Where) -> type:
    """Give a class back, found among the loaded modules."""
    cls: type = loaded(tag, object, where, decoder)
    return cls


def loaded(tag: Tag, parent: type, where: Where, decoder: Decoder) -> Any:
    """Return the loaded class that a tag names. Raises CodecError when it is not loaded, or no `parent`."""
    name = tag["class"]
    cls = find_class(name)
    if cls is None:
        module = name.partition(":")[0]
        raise decoder.error(where, f"class {name} is not loaded here; import {module} before the recording is read")
    if not issubclass(cls, parent):
        raise decoder.error(where, f"class {name} is no {parent.__name__} any more")
    return cls


_PARTS: dict[str, Callable[[Any, Encoder, Where], Tag]] = {
    "enum": _enum_parts,
    "dataclass": _dataclass_parts,
    "attrs": _attrs_parts,
    "pydantic": _pydantic_parts,
    "namedtuple": _namedtuple_parts,
    "namespace": _namespace_parts,
    "subclass": _subclass_parts,
}

READERS: dict[str, Callable[[Tag, Decoder, Where], Any]] = {
    "enum": read_enum,
    "dataclass": read_fields,
    "attrs": read_fields,
    "pydantic": read_pydantic,
    "namedtuple": read_namedtuple,
    "namespace": read_namespace,
    "subclass": read_subclass,
    "class": read_class,
}
