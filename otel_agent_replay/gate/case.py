"""A case: a kept run, and the invariants that a run of it must keep. Pure data, made of `case.yaml`.

Whether an invariant holds is decided in `invariants`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_agent_replay.casefile.document import CaseDocument
from otel_agent_replay.gate.reading import invariants_of
from otel_agent_replay.gate.stated import Invariant
from otel_agent_replay.model import Word
from otel_agent_replay.payload.canonical import canonical_json


class CaseKind(Word):
    """What the recorded run of a case is."""

    BAD = "bad"  # it went wrong: the invariants must reject it
    CONTROL = "control"  # it is good, and must stay good: a guard against over-correction


@dataclass(frozen=True, slots=True)
class Case:
    """A case. `run` is the recorded run's id in hexadecimal ("": the case has none), `from_step` where it went wrong.

    `good` are runs that it must accept: ids in its lake, or folders relative to it. `entry` is the agent to run again.
    """

    folder: Path
    kind: CaseKind = CaseKind.BAD
    about: str = ""
    run: str = ""
    from_step: int = 0
    entry: str = ""
    good: Sequence[str] = ()
    invariants: Sequence[Invariant] = ()
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str) -> Case:
        """Read the case in `folder` (or its `case.yaml`). Raises ConfigurationError saying where it is wrong."""
        return cls._of(CaseDocument.load(folder))

    @classmethod
    def of(cls, content: Any, folder: Path) -> Case:
        """Return the case of a document as YAML or JSON gives it. Raises ConfigurationError."""
        return cls._of(CaseDocument.of(content, folder))

    @classmethod
    def _of(cls, document: CaseDocument) -> Case:
        content = document.content
        return cls(
            document.folder,
            CaseKind(content.get("kind", "bad")),
            content.get("about", ""),
            content.get("run", ""),
            content.get("from_step", 0),
            content.get("entry", ""),
            tuple(content.get("good", ())),
            tuple(invariants_of(document)),
            content,
        )

    @property
    def name(self) -> str:
        """What reports call the case: the name of its folder."""
        return self.folder.resolve().name

    @property
    def lake(self) -> Path:
        """The small lake that holds its runs."""
        return self.folder / "lake"

    @property
    def inputs(self) -> bytes:
        """All that the case feeds to a run, in canonical form: what may not change while it is the same test."""
        left_out = ("about", "expect", "effects", "transitions", "good")
        return canonical_json({key: value for key, value in self.content.items() if key not in left_out})
