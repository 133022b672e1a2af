"""YAML that strangers wrote, by a safe loader: tags that name Python or Ruby classes become plain text and data.

Old recorders wrote header names as `!!python/object/apply:...istr [Accept]`; the text in it is all that is taken.
"""

from __future__ import annotations

import base64
from typing import Any

import yaml

from otel_agent_replay.errors import DamagedRecording


class _PlainLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, and plain text for foreign tags."""


def _foreign(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        values = loader.construct_sequence(node, deep=True)
        return str(values[0]) if values else ""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return str(loader.construct_scalar(node))  # type: ignore[arg-type]


def _binary(loader: yaml.SafeLoader, node: yaml.Node) -> bytes:
    return base64.b64decode(str(loader.construct_scalar(node)))  # type: ignore[arg-type]


_PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", _foreign)
_PlainLoader.add_multi_constructor("!ruby/", _foreign)
_PlainLoader.add_constructor("!binary", _binary)


def load_yaml(text: bytes, source: str) -> Any:
    """The document in `text`. Raises DamagedRecording when it is no YAML, or has a tag that nobody knows."""
    try:
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DamagedRecording(f"{source} is no YAML that can be read safely: {error}") from error
