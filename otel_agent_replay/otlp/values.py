"""OTLP attribute values <-> Python values, both directions beside each other. Pure.

What OTLP cannot hold is kept as text: integers beyond 64 bits in decimal, lone surrogates as backslash escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_agent_replay.model import AttributeValue

_INT64 = 1 << 63


def text_to_otlp(text: str) -> str:
    """Return `text` as UTF-8 can hold it."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def attributes_to_otlp(attributes: Mapping[str, AttributeValue]) -> list[KeyValue]:
    """Return the attributes in their order."""
    return [KeyValue(key=text_to_otlp(name), value=value_to_otlp(value)) for name, value in attributes.items()]


def value_to_otlp(value: AttributeValue) -> AnyValue:
    """Return the message of one value; a type that OTLP does not know goes as its text."""
    if isinstance(value, str):
        return AnyValue(string_value=text_to_otlp(str.__str__(value)))
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        if -_INT64 <= value < _INT64:
            return AnyValue(int_value=value)
        return AnyValue(string_value=str(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    message = AnyValue()
    if isinstance(value, (bytes, bytearray, memoryview)):
        message.bytes_value = bytes(value)
    elif isinstance(value, Mapping):
        message.kvlist_value.SetInParent()
        message.kvlist_value.values.extend(
            KeyValue(key=text_to_otlp(str(name)), value=value_to_otlp(item)) for name, item in value.items()
        )
    elif isinstance(value, Sequence):
        message.array_value.SetInParent()
        message.array_value.values.extend(map(value_to_otlp, value))
    elif value is not None:
        message.string_value = text_to_otlp(str(value))
    return message


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
