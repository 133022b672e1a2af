"""A case's folder as a document: `case.yaml` read and held against the schema, and the files that it names.

One file serves component runs (what answers, in which time) and gates (what must hold of a recorded run). Nothing is
imported, and no file outside the folder is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from otel_agent_replay.casefile.schema_check import problems
from otel_agent_replay.casefile.yaml_text import read_yaml
from otel_agent_replay.errors import ConfigurationError

CASE_FILE = "case.yaml"
_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class CaseDocument:
    """What `case.yaml` says, as plain values that fit the schema; `folder` is where it lies."""

    folder: Path
    content: Mapping[str, Any]

    @classmethod
    def load(cls, folder: Path | str) -> CaseDocument:
        """Read the case in `folder` (or the `case.yaml` itself). Raises ConfigurationError saying where it is wrong."""
        path = Path(folder)
        path = path if path.name == CASE_FILE else path / CASE_FILE
        if not path.exists():
            raise ConfigurationError(
                f"there is no case in {path.parent}: a case is a folder with a {CASE_FILE}, which "
                "`agent-replay case add RUN` makes of a run, and `agent-replay component new RUN` of its steps"
            )
        return cls.of(read_yaml(path), path.parent)

    @classmethod
    def of(cls, content: Any, folder: Path) -> CaseDocument:
        """Return the document of what YAML or JSON gave. Raises ConfigurationError saying where it is wrong."""
        document = cls(folder, content)
        wrong = problems(content, schema())
        if wrong:
            more = [] if len(wrong) <= _MOST_TOLD else [f"and {len(wrong) - _MOST_TOLD} more"]
            raise document.wrong("; ".join([*wrong[:_MOST_TOLD], *more]))
        return document

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a section of the file, {} where it is left out."""
        found: Mapping[str, Any] = self.content.get(name, {})
        return found

    def wrong(self, what: str) -> ConfigurationError:
        """Return the error that says what is wrong with the file."""
        return ConfigurationError(f"{self.folder / CASE_FILE} is wrong: {what}")

    def file(self, name: str) -> Path:
        """Return the path of a file that the case names. Raises ConfigurationError for one outside its folder."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ConfigurationError(f"{name!r} lies outside the case's folder {self.folder}")
        return path


@lru_cache(maxsize=1)
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of `case.yaml`, as it is shipped."""
    document: Mapping[str, Any] = json.loads(schema_text())
    return document


def schema_text() -> str:
    """Return the text of the JSON Schema, for editors."""
    return resources.files(__package__).joinpath("case.schema.json").read_text(encoding="utf-8")
