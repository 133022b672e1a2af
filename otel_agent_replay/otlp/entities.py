"""Entity references of a resource, kept among its attributes: the model has no field for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opentelemetry.proto.resource.v1 import resource_pb2

from otel_agent_replay import semconv
from otel_agent_replay.model import AttributeValue


def with_entities(
    attributes: dict[str, AttributeValue], entities: Sequence[Mapping[str, AttributeValue]]
) -> dict[str, AttributeValue]:
    """Return the attributes of a resource, its entity references among them where there are any."""
    return {**attributes, semconv.ENTITY_REFS: tuple(entities)} if entities else attributes


def entities_from_otlp(message: resource_pb2.Resource) -> list[dict[str, AttributeValue]]:
    """Return the entity references of a resource; [] where the installed protocol has none yet."""
    references: Iterable[Any] = getattr(message, "entity_refs", ())
    return [
        {
            "schema_url": one.schema_url,
            "type": one.type,
            "id_keys": tuple(one.id_keys),
            "description_keys": tuple(one.description_keys),
        }
        for one in references
    ]


def entities_to_otlp(entities: AttributeValue, message: resource_pb2.Resource) -> bool:
    """Add entity references to a resource. False: the value is none of ours, or the installed protocol has none yet."""
    into: Any = getattr(message, "entity_refs", None)
    if into is None or not isinstance(entities, (list, tuple)):
        return False
    if not all(isinstance(one, Mapping) and set(one) == _FIELDS for one in entities):
        return False
    for one in entities:
        into.add(**one)
    return True


_FIELDS = {"schema_url", "type", "id_keys", "description_keys"}
