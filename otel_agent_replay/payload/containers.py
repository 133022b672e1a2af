"""Tags of what holds other values: tuple, set, deque, range, slice, and dictionaries that JSON cannot hold."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_agent_replay.payload.where import Where

if TYPE_CHECKING:
    from otel_agent_replay.payload.decoding import Decoder
    from otel_agent_replay.payload.encoding import Encoder

Tag = dict[str, Any]


def write_list(value: list[Any], encoder: Encoder, where: Where) -> list[Any]:
    """Keep a list as a JSON array."""
    return encoder.items(value, where)


def write_dict(value: dict[Any, Any], encoder: Encoder, where: Where) -> Tag:
    """Keep a dict as a JSON object where that is exact; else as pairs, so that keys keep their class and order."""
    pairs = list(value.items())
    if all(type(key) is str and key != "$type" and encoder.is_text(key) for key, _ in pairs):
        return {key: encoder.value(item, (where, key)) for key, item in pairs}
    return {"$type": "dict", "items": encoder.pairs(pairs, where)}


def read_dict(tag: Tag, decoder: Decoder, where: Where) -> dict[Any, Any]:
    """Give the dict back."""
    return dict(decoder.pairs(tag["items"], where))


def write_defaultdict(value: collections.defaultdict[Any, Any], encoder: Encoder, where: Where) -> Tag:
    """Keep the entries and, when it is a class that can be found again, the factory."""
    items = encoder.pairs(list(value.items()), where)
    return {"$type": "defaultdict", "factory": encoder.value(value.default_factory, where), "items": items}


def read_defaultdict(tag: Tag, decoder: Decoder, where: Where) -> collections.defaultdict[Any, Any]:
    """Give the dict back; a factory that was kept as text only is none."""
    factory = decoder.value(tag["factory"], where)
    return collections.defaultdict(factory if isinstance(factory, type) else None, decoder.pairs(tag["items"], where))


def write_ordered_dict(value: collections.OrderedDict[Any, Any], encoder: Encoder, where: Where) -> Tag:
    """Keep the entries in their order."""
    return {"$type": "ordered_dict", "items": encoder.pairs(list(value.items()), where)}


def read_ordered_dict(tag: Tag, decoder: Decoder, where: Where) -> collections.OrderedDict[Any, Any]:
    """Give the dict back."""
    return collections.OrderedDict(decoder.pairs(tag["items"], where))


def write_tuple(value: tuple[Any, ...], encoder: Encoder, where: Where) -> Tag:
    """Keep a tuple apart from a list."""
    return {"$type": "tuple", "items": encoder.items(value, where)}


def read_tuple(tag: Tag, decoder: Decoder, where: Where) -> tuple[Any, ...]:
    """Give the tuple back."""
    return tuple(decoder.items(tag["items"], where))


def write_set(value: set[Any], encoder: Encoder, where: Where) -> Tag:
    """Keep a set sorted by its members' bytes: equal sets must have equal digests in every process."""
    return {"$type": "set", "items": sorted_items(value, encoder, where)}


def read_set(tag: Tag, decoder: Decoder, where: Where) -> set[Any]:
    """Give the set back; its order of iteration is this process's."""
    return set(decoder.items(tag["items"], where))


def write_frozenset(value: frozenset[Any], encoder: Encoder, where: Where) -> Tag:
    """Keep a frozenset like a set."""
    return {"$type": "frozenset", "items": sorted_items(value, encoder, where)}


def read_frozenset(tag: Tag, decoder: Decoder, where: Where) -> frozenset[Any]:
    """Give the frozenset back."""
    return frozenset(decoder.items(tag["items"], where))


def sorted_items(value: set[Any] | frozenset[Any], encoder: Encoder, where: Where) -> list[Any]:
    """Return the encoded members in the order of their bytes."""
    return sorted(encoder.items(list(value), where), key=encoder.dump)


def write_deque(value: collections.deque[Any], encoder: Encoder, where: Where) -> Tag:
    """Keep a deque and its bound."""
    return {"$type": "deque", "maxlen": value.maxlen, "items": encoder.items(list(value), where)}


def read_deque(tag: Tag, decoder: Decoder, where: Where) -> collections.deque[Any]:
    """Give the deque back."""
    return collections.deque(decoder.items(tag["items"], where), tag["maxlen"])


def write_range(value: range, encoder: Encoder, where: Where) -> Tag:
    """Keep the three numbers."""
    return {"$type": "range", "items": encoder.items((value.start, value.stop, value.step), where)}


def read_range(tag: Tag, decoder: Decoder, where: Where) -> range:
    """Give the range back."""
    return range(*decoder.items(tag["items"], where))


def write_slice(value: slice, encoder: Encoder, where: Where) -> Tag:
    """Keep the three parts."""
    return {"$type": "slice", "items": encoder.items((value.start, value.stop, value.step), where)}


def read_slice(tag: Tag, decoder: Decoder, where: Where) -> slice:
    """Give the slice back."""
    return slice(*decoder.items(tag["items"], where))


WRITERS: dict[type, Callable[[Any, Encoder, Where], Any]] = {
    list: write_list,
    dict: write_dict,
    collections.defaultdict: write_defaultdict,
    collections.OrderedDict: write_ordered_dict,
    tuple: write_tuple,
    set: write_set,
    frozenset: write_frozenset,
    collections.deque: write_deque,
    range: write_range,
    slice: write_slice,
}
"""By exact class."""

READERS: dict[str, Callable[[Tag, Decoder, Where], Any]] = {
    "dict": read_dict,
    "defaultdict": read_defaultdict,
    "ordered_dict": read_ordered_dict,
    "tuple": read_tuple,
    "set": read_set,
    "frozenset": read_frozenset,
    "deque": read_deque,
    "range": read_range,
    "slice": read_slice,
}
