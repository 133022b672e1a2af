"""Recorded trajectories of other people's agents as runs, with what their files say of them; read where they lie."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_agent_replay.imports.files import read_file
from otel_agent_replay.model import Kind, Node, RecordedRun
from otel_agent_replay.payload.redaction import Redaction

_WRITTEN_NS = 1_764_547_200_000_000_000


@dataclass(frozen=True)
class RealRun:
    """A run, its labels (reward, task, ...) and where it lies."""

    run: RecordedRun
    labels: dict[str, Any]
    place: str

    @property
    def task(self) -> str:
        """What it was about."""
        return str(self.labels.get("task", ""))

    @property
    def passed(self) -> bool:
        """Whether its benchmark gave it the full reward."""
        return self.labels.get("reward") == 1.0


def data_folder() -> Path | None:
    """Return the folder of recordings, None where there is none."""
    folder = Path(os.environ.get("OTEL_AGENT_REPLAY_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    return folder if (folder / "INDEX.tsv").exists() else None


def real_runs(pattern: str) -> list[RealRun]:
    """Return the runs in the files of a pattern below the data folder; [] where it is not here."""
    folder = data_folder()
    paths = [] if folder is None else sorted(folder.glob(pattern))
    return [run for path in paths for run in _in_file(path)]


def _in_file(path: Path) -> Iterator[RealRun]:
    redaction = Redaction.default()
    for recording in read_file(path).recordings:
        built = recording.build(_WRITTEN_NS, redaction)
        yield RealRun(built.run, {label.name: label.value for label in built.labels}, str(path))


def content(run: RecordedRun, node: Node, side: str) -> Any:
    """Return what was asked ("call") or answered ("outcome") as JSON; None where there is nothing."""
    payload = node.call.request if side == "call" and node.call else None
    if side == "outcome" and node.outcome is not None:
        payload = node.outcome.result
    data = None if payload is None else run.payload(payload.digest)
    return None if data is None else json.loads(data)


def said(run: RecordedRun, node: Node) -> str:
    """Return what a step came to, as one text: a model's words and calls, a tool's result, a user's turn."""
    answer = content(run, node, "outcome")
    if node.kind is Kind.MODEL and isinstance(answer, dict):
        message = answer["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        return f"{message.get('content') or ''} {json.dumps(calls, sort_keys=True) if calls else ''}".strip()
    return answer if isinstance(answer, str) else json.dumps(answer, sort_keys=True)


def final_text(run: RecordedRun) -> str:
    """Return what the run came to."""
    return str(content(run, run.nodes[0], "outcome") or "")
