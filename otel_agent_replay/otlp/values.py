"""OTLP attribute values <-> Python values, both directions beside each other. Pure.

What OTLP cannot hold is kept as text: integers beyond 64 bits in decimal, lone surrogates as backslash escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_agent_replay.model import AttributeValue

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_INT64 = 1 << 63


def text_to_otlp(text: str) -> str:
    """Return `text` as UTF-8 can hold it."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def attributes_to_otlp(
    attributes: Mapping[str, AttributeValue], into: RepeatedCompositeFieldContainer[KeyValue]
) -> None:
    """Add the attributes, in their order, to a field of a message: filling in place costs a third of copying."""
    for name, value in attributes.items():
        added = into.add()
        added.key = text_to_otlp(name)
        _fill(added.value, value)


def _fill(message: AnyValue, value: AttributeValue) -> None:
    if isinstance(value, str):
        message.string_value = text_to_otlp(str.__str__(value))
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int):
        if -_INT64 <= value < _INT64:
            message.int_value = value
        else:
            message.string_value = str(value)
    elif isinstance(value, float):
        message.double_value = value
    elif isinstance(value, (bytes, bytearray, memoryview)):
        message.bytes_value = bytes(value)
    elif isinstance(value, Mapping):
        message.kvlist_value.SetInParent()
        attributes_to_otlp({str(name): item for name, item in value.items()}, message.kvlist_value.values)
    elif isinstance(value, Sequence):
        message.array_value.SetInParent()
        for item in value:
            _fill(message.array_value.values.add(), item)
    elif value is None:
        message.SetInParent()  # the empty value: there, and nothing in it
    else:
        message.string_value = text_to_otlp(str(value))


def attributes_from_otlp(attributes: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    """Return the mapping of attributes, in their order."""
    return {attribute.key: value_from_otlp(attribute.value) for attribute in attributes}


def value_from_otlp(message: AnyValue) -> AttributeValue:
    """Return one value; arrays come as tuples, the empty value as None."""
    which = message.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return tuple(value_from_otlp(item) for item in message.array_value.values)
    if which == "kvlist_value":
        return attributes_from_otlp(message.kvlist_value.values)
    return getattr(message, which)
