"""What a sealer was doing: written before each thing it does, so that the next one does it again after a crash.

Publishing the same runs from the same segments replaces the same files, so doing a step twice doubles nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.export.segment_file import journal_folder

RUNS, REST, REMOVE = "runs", "rest", "remove"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a sealer does: publish `runs`, publish the `rest` of segments, or `remove` them.

    `segments` are ids of segments; `runs` keys of attempts, each with the number it gets;
    `damaged` are segments to keep aside, not to remove.
    """

    what: str
    segments: tuple[str, ...]
    runs: tuple[tuple[str, int], ...] = ()
    damaged: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON can hold it."""
        return {"what": self.what, "segments": self.segments, "runs": self.runs, "damaged": self.damaged}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Step:
        """Return the step; raises KeyError, TypeError or ValueError when it is none."""
        return cls(
            stored["what"],
            tuple(stored["segments"]),
            tuple((key, number) for key, number in stored["runs"]),
            tuple(stored["damaged"]),
        )


@dataclass(slots=True)
class SealState:
    """The sealer's memory of one lake, in `journal/sealer.json`.

    `published` tells of each published attempt how many of its records had been read in each segment that is still
    there: what came later is late. `step` is what is being done.
    """

    path: Path
    published: dict[str, dict[str, int]] = field(default_factory=dict)
    step: Step | None = None

    @classmethod
    def load(cls, lake: Path) -> SealState:
        """Return the state of a lake; a fresh one when there is none. Raises DamagedRecording."""
        path = journal_folder(lake) / "sealer.json"
        try:
            stored = json.loads(path.read_bytes())
            step = stored["step"]
            return cls(
                path,
                {run: dict(counts) for run, counts in stored["published"].items()},
                None if step is None else Step.from_json(step),
            )
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedRecording(
                f"{path} is not what a sealer writes ({error}); remove it to seal again: runs that are in the lake "
                "already are found there"
            ) from error

    def save(self, step: Step | None) -> None:
        """Write the state with a new `step`, durably and at once."""
        self.step = step
        if step is None and not self.published:
            self.path.unlink(missing_ok=True)
            return
        doing = None if step is None else step.to_json()
        temporary = self.path.with_suffix(".new")
        with temporary.open("w", encoding="ascii") as file:
            json.dump({"published": self.published, "step": doing}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)

    def forget(self, segments: tuple[str, ...]) -> None:
        """Forget what was read in segments that are gone."""
        gone = set(segments)
        for run in list(self.published):
            counts = {segment: count for segment, count in self.published[run].items() if segment not in gone}
            if counts:
                self.published[run] = counts
            else:
                del self.published[run]
