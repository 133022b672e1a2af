"""YAML as cases use it: plain values only, no dates, no key twice; and lists that read well in a diff.

Owns how a case's files are read and written. Needs PyYAML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from otel_agent_replay.errors import ConfigurationError

_WIDEST = 10**6  # one event, one line


class _Loader(yaml.SafeLoader):
    """Takes moments as the texts that they are, and refuses a key that comes twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the library declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(None, None, f"line {line}: the key {key!r} comes twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Return what the file holds. Raises ConfigurationError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        told = " ".join(str(error).split())
        raise ConfigurationError(f"{path} is not YAML: {told}") from error


def one_a_line(items: Sequence[Mapping[str, Any]]) -> str:
    """Return a list of mappings as YAML, one a line."""
    return "".join(
        f"- {yaml.safe_dump(dict(item), default_flow_style=True, sort_keys=False, allow_unicode=True, width=_WIDEST)}"
        for item in items
    )


def document(value: Mapping[str, Any]) -> str:
    """Return a mapping as YAML in blocks, its keys in order."""
    text: str = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=100)
    return text
