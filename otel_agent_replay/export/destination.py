"""Where a sealer's runs go: the lake's files, or whatever else takes whole runs and says when it has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from otel_agent_replay.model import Loss, RecordedRun

Attempts = Callable[[bytes], Mapping[bytes, int]]
"""Of a run's id: the attempts that the destination has, their numbers by the id of their root span."""


class Destination(Protocol):
    """Takes runs out of journal segments. Taking the same again must double nothing."""

    def attempts(self) -> Attempts:
        """Return what tells the attempts that are there already."""

    def publish(self, runs: Sequence[RecordedRun], segments: Sequence[str], losses: Sequence[Loss]) -> None:
        """Take runs, for good: their segments are removed. A run with an empty id is a trace without a run.

        `losses` are those of no run. Raises OSError when that cannot be done now.
        """


class LakeDestination:
    """The files of a lake."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake

    def attempts(self) -> Attempts:
        """Return what the lake's catalog knows."""
        from otel_agent_replay.lake.catalog import Lake

        return Lake(self._lake).attempts

    def publish(self, runs: Sequence[RecordedRun], segments: Sequence[str], losses: Sequence[Loss]) -> None:
        """Write runs as files."""
        from otel_agent_replay.lake.writer import write_runs

        write_runs(self._lake, runs, segments=segments, losses=losses)
